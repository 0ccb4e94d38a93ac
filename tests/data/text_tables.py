"""Tables of texts as files."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def written(folder: Path, content: str | bytes, name: str = "tickets.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def saved(folder: Path, ending: str, **columns: list) -> Path:
    path = folder / f"tickets.{ending}"
    table = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    if ending.endswith((".gz", ".zst")):
        plain, _, packing = ending.rpartition(".")
        content = saved(folder, plain, **columns).read_bytes()
        with pa.CompressedOutputStream(str(path), {"gz": "gzip", "zst": "zstd"}[packing]) as file:
            file.write(content)
    elif ending == "xlsx":
        table.to_excel(path, index=False)
    elif ending == "json":
        table.to_json(path, orient="records")
    elif ending == "parquet":
        pq.write_table(pa.table(columns), path)
    elif ending in {"jsonl", "ndjson"}:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    return path
