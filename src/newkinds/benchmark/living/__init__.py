"""Collections that live on: samples and kinds that come in stages, and who takes them in how well."""
