// Bundles src/ into the files that the Python package carries: a script and a style for the pages that are files, and
// the same for the studio. The same sources always give the same bytes.
import { build } from "esbuild";
import { copyFileSync, readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const BUNDLES = [
  { name: "page", script: "src/main.tsx", style: "src/style/page.css", assets: here("../src/newkinds/report/assets/") },
  { name: "studio", script: "src/studio/main.tsx", style: "src/style/studio.css", assets: here("../src/newkinds/studio/assets/") },
];

for (const { name, script, style, assets } of BUNDLES) {
  await build({
    entryPoints: { [name]: here(script) },
    outdir: assets,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    legalComments: "none",
  });
  await build({ entryPoints: { [name]: here(style) }, outdir: assets, bundle: true, minify: true, target: "es2022" });

  // Preact is inside the bundle; its licence asks to be kept with it.
  copyFileSync(here("node_modules/preact/LICENSE"), `${assets}preact-LICENSE.txt`);

  // The bundle of a page stands inside a script element, and both under a policy that forbids evaluation.
  const built = readFileSync(`${assets}${name}.js`, "utf-8");
  const styles = readFileSync(`${assets}${name}.css`, "utf-8");
  for (const forbidden of [/<\/script/i, /<!--/, /\beval\(/, /new Function\b/]) {
    if (forbidden.test(built)) throw new Error(`${name}.js must not hold ${forbidden}`);
  }
  if (/<\/style|url\(/i.test(styles)) throw new Error(`${name}.css must not hold </style or url(`);
  console.log(`${name}.js ${built.length} bytes, ${name}.css ${styles.length} bytes`);
}
// Preact can set innerHTML; no source of ours may ask for it.
for (const path of readdirSync(here("src"), { recursive: true }).filter((path) => /\.tsx?$/.test(path))) {
  if (/innerHTML/i.test(readFileSync(here(`src/${path}`), "utf-8"))) throw new Error(`${path} must not use innerHTML`);
}
