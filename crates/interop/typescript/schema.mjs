// Compiles JSON Schemas with Ajv as it comes, in each of its drafts, and judges lines with them.
// Each argument is a schema file; each line of standard input is JSON. Prints one line of JSON for each file.

import { readFileSync } from "node:fs";
import Ajv from "ajv";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";

const lines = readFileSync(0, "utf8").split("\n").filter((line) => line.trim() !== "");
for (const file of process.argv.slice(2)) {
  const schema = JSON.parse(readFileSync(file, "utf8"));
  const verdicts = {};
  for (const [draft, Draft] of [["7", Ajv], ["2019", Ajv2019], ["2020", Ajv2020]]) {
    const complaints = [];
    const complain = (message) => complaints.push(String(message));
    const options = { logger: { log: complain, warn: complain, error: complain } };
    let judge = () => null;
    try {
      judge = new (Draft.default ?? Draft)(options).compile(schema);
    } catch (error) {
      complain(error.message);
    }
    verdicts[draft] = { complaints, valid: lines.map((line) => judge(JSON.parse(line))) };
  }
  console.log(JSON.stringify(verdicts));
}
