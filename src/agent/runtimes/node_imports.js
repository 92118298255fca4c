// import in calls, which V8 takes for scripts: declarations become `await import()`, and import()
// becomes a function that looks from the working folder. V8 itself says where they are, so strings,
// comments and the like stay as they are.
'use strict';
const { Module } = require('module');

const NAME = '__msb_import__';
const IMPORTS_MAX = 200;
const DECLARATION = new RegExp([
  /^import\b\s*/, /(?:([\w$]+)\s*,?\s*)?/, /(?:\*\s*as\s+([\w$]+)\s*|\{([^}]*)\}\s*)?/,
  /(?:from\s*)?/, /('[^'\n]*'|"[^"\n]*")/, /(?:\s*(?:with|assert)\s*(\{[^}]*\}))?/, /[^\S\n]*;?/,
].map((part) => part.source).join(''));
const FUNCTION = 'module.exports = (specifier, options) => import(specifier, options);';

// Where the compiler stops, as { message, offset }, or null.
function findError(code, compile) {
  const details = compile(`async () => {\n${code}\n}`);
  if (!details) return null;
  const breaks = /\r\n|[\n\r\u2028\u2029]/g;
  for (let line = 1; line < details.lineNumber; line++) breaks.exec(code);
  return { message: details.exception.description, offset: breaks.lastIndex + details.columnNumber };
}

function describeNames(list) {
  const names = list.replace(/\/\/.*|\/\*[^]*?\*\//g, '').split(',').map((name) => name.trim());
  return names.filter(Boolean).map((name) => name.replace(/\s+as\s+/, ': '));
}

function translateDeclaration([text, byDefault, all, list, specifier, attributes]) {
  const options = attributes ? `, { with: ${attributes}, assert: ${attributes} }` : '';
  const loaded = `await ${NAME}(${specifier}${options})`;
  const names = [...(byDefault ? [`default: ${byDefault}`] : []), ...describeNames(list || '')];
  const lines = '\n'.repeat(text.split('\n').length - 1);
  if (all && names.length) return `const ${all} = ${loaded}, { ${names.join(', ')} } = ${all};${lines}`;
  if (all) return `const ${all} = ${loaded};${lines}`;
  if (names.length) return `const { ${names.join(', ')} } = ${loaded};${lines}`;
  return `void (${loaded});${lines}`;
}

function replaceDeclarations(code, compile) {
  let result = code;
  for (let i = 0; i < IMPORTS_MAX; i++) {
    const error = findError(result, compile);
    if (!error || !error.message.includes('import statement outside a module')) break;
    const found = DECLARATION.exec(result.slice(error.offset));
    if (!found) break;
    const rest = result.slice(error.offset + found[0].length);
    result = result.slice(0, error.offset) + translateDeclaration(found) + rest;
  }
  return result;
}

// `import.meta` is an error for V8 where import() is an expression, and nowhere else.
function replaceExpressions(code, compile) {
  let result = code;
  const candidates = [...code.matchAll(/\bimport(?=\s*\()/g)].slice(0, IMPORTS_MAX).reverse();
  for (const { index } of candidates) {
    const after = index + 'import'.length;
    const error = findError(`${result.slice(0, after)}.meta${result.slice(after)}`, compile);
    const isHere = error && error.offset >= index && error.offset <= after + 1;
    if (isHere && error.message.includes("'import.meta'")) {
      result = result.slice(0, index) + NAME + result.slice(after);
    }
  }
  return result;
}

function load(specifier, options) {
  const referrer = new Module(`${process.cwd()}/[call].cjs`);
  referrer._compile(FUNCTION, referrer.id);
  return referrer.exports(specifier, options);
}

function translate(code, compile) {
  Object.defineProperty(globalThis, NAME, { value: load, configurable: true });
  return replaceExpressions(replaceDeclarations(code, compile), compile);
}

module.exports = { translate };
