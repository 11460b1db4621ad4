// The words of the pages: both languages have the same entries, and the pages use no others.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

const web = resolve(import.meta.dirname, "../../web");
const read = (path) => readFileSync(join(web, path), "utf8");
// The files are modules for browsers, without a package.json that would tell Node so.
const load = async (name) => (await import(`data:text/javascript,${encodeURIComponent(read(name))}`)).default;
const [en, zh] = await Promise.all([load("words.en.js"), load("words.zh.js")]);
const placeholders = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();

test("both languages have the same entries with the same placeholders", () => {
  assert.deepEqual(Object.keys(zh), Object.keys(en));
  for (const page of Object.keys(en)) {
    assert.deepEqual(Object.keys(zh[page]).sort(), Object.keys(en[page]).sort(), page);
    for (const [key, text] of Object.entries(en[page])) {
      assert.ok(text && zh[page][key], `${page}.${key} is empty`);
      assert.deepEqual(placeholders(zh[page][key]), placeholders(text), `${page}.${key}`);
    }
  }
});

test("every word that a page asks for by name exists", () => {
  for (const page of ["shop", "console"]) {
    const code = readdirSync(join(web, page))
      .map((file) => read(join(page, file)))
      .join("\n");
    const asked = [...code.matchAll(/\bsay\("([\w-]+)"/g)].map((match) => match[1]);
    assert.ok(asked.length > 20, `${page} asks for ${asked.length} words: is the pattern still right?`);
    assert.deepEqual(
      asked.filter((key) => !(key in en[page])),
      [],
      page,
    );
  }
});
