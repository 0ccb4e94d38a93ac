// Bundles src/ into the two files that the Python package carries. The same sources always give the same bytes.
import { build } from "esbuild";
import { copyFileSync, readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const assets = here("../src/newkinds/report/assets/");

await build({
  entryPoints: { page: here("src/main.tsx") },
  outdir: assets,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
});
await build({ entryPoints: [here("src/style/page.css")], outdir: assets, bundle: true, minify: true, target: "es2022" });

// Preact is inside the bundle; its licence asks to be kept with it.
copyFileSync(here("node_modules/preact/LICENSE"), `${assets}preact-LICENSE.txt`);

// The bundle stands inside a script element, under a policy that forbids evaluation: neither may be broken.
const script = readFileSync(`${assets}page.js`, "utf-8");
const style = readFileSync(`${assets}page.css`, "utf-8");
for (const forbidden of [/<\/script/i, /<!--/, /\beval\(/, /new Function\b/]) {
  if (forbidden.test(script)) throw new Error(`page.js must not hold ${forbidden}`);
}
if (/<\/style|url\(/i.test(style)) throw new Error("page.css must not hold </style or url(");
// Preact can set innerHTML; no source of ours may ask for it.
for (const path of readdirSync(here("src"), { recursive: true }).filter((path) => /\.tsx?$/.test(path))) {
  if (/innerHTML/i.test(readFileSync(here(`src/${path}`), "utf-8"))) throw new Error(`${path} must not use innerHTML`);
}
console.log(`page.js ${script.length} bytes, page.css ${style.length} bytes`);
