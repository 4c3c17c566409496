// Parses each file it is given as a script of ES2015, and names the place where one is not.
import { readFileSync } from "node:fs";
import { parse } from "acorn";

for (const file of process.argv.slice(2)) {
  try {
    parse(readFileSync(file, "utf8"), { ecmaVersion: 2015, sourceType: "script" });
  } catch (e) {
    console.error(`${file}: ${e.message}`);
    process.exitCode = 1;
  }
}
