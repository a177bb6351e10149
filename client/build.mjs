// Bundle the client into src/kifu/assets/web, or into the folder that the first argument names. The same sources and package-lock.json give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";

const output = process.argv[2] ?? "../src/kifu/assets/web";

await rm(output, { recursive: true, force: true });
await mkdir(output, { recursive: true });
await build({
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  // Shudan's photograph of a wooden board takes as much space as the program; app.css draws a plain one.
  loader: { ".png": "empty", ".svg": "dataurl" },
  legalComments: "eof",
  outdir: output,
});
for (const name of ["index.html", "icon.svg"]) await copyFile(`src/${name}`, `${output}/${name}`);

// The bundle contains these packages; their licences ask to be kept with it.
const licences = [];
for (const name of ["@sabaki/shudan", "classnames", "preact"]) {
  licences.push(`${name}\n\n${(await readFile(`node_modules/${name}/LICENSE`, "utf8")).trim()}\n`);
}
await writeFile(`${output}/LICENSES.txt`, licences.join("\n\n"));
