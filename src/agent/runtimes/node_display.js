// Rich results: the forms of a value by MIME type, and display().
'use strict';
const util = require('util');

const RESULT_MAX = 16 << 20;
const TEXT_MAX = 1 << 20;
const JSON_MAX = 64 << 10; // characters of the JSON that goes with plain objects and arrays
const PARTS_MAX = 10000; // values in it
const DEPTH_MAX = 32;
const BUNDLE = Symbol.for('Jupyter.display');
const IMAGES = [['89504e47', 'image/png'], ['ffd8ff', 'image/jpeg'], ['47494638', 'image/gif']];

function isJson(mime) {
  return mime === 'application/json' || mime.endsWith('+json');
}

// A form as it is sent, or undefined for what is no form of this kind.
function encodeForm(mime, form) {
  if (form === undefined || form === null) return undefined;
  if (isJson(mime)) return JSON.parse(JSON.stringify(form));
  if (ArrayBuffer.isView(form)) {
    return Buffer.from(form.buffer, form.byteOffset, form.byteLength).toString('base64');
  }
  return typeof form === 'string' ? form : undefined;
}

function encodeBundle(bundle) {
  const data = {};
  for (const [mime, form] of Object.entries(Object(bundle))) {
    const encoded = mime.includes('/') ? encodeForm(mime, form) : undefined;
    if (encoded !== undefined) data[mime] = encoded;
  }
  return data;
}

// Whether JSON says all there is to say about a plain object or array.
function isFaithful(value) {
  let left = PARTS_MAX;
  const visit = (part, depth) => {
    if (--left < 0 || depth > DEPTH_MAX) return false;
    if (part === null || typeof part === 'string' || typeof part === 'boolean') return true;
    if (typeof part === 'number') return Number.isFinite(part);
    if (typeof part !== 'object' || util.types.isProxy(part)) return false;
    const isPlain = [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(part));
    return isPlain && Object.values(part).every((inner) => visit(inner, depth + 1));
  };
  return visit(value, 0);
}

function jsonForm(value) {
  try {
    if (typeof value !== 'object' || !isFaithful(value)) return {};
    const text = JSON.stringify(value);
    return text.length > JSON_MAX ? {} : { 'application/json': JSON.parse(text) };
  } catch {
    return {}; // a property that cannot be read
  }
}

function imageForm(value) {
  if (!(value instanceof Uint8Array)) return {};
  const start = Buffer.from(value.subarray(0, 4)).toString('hex');
  const found = IMAGES.find(([magic]) => start.startsWith(magic));
  return found ? { [found[1]]: encodeForm(found[1], value) } : {};
}

function inspect(value) {
  return util.inspect(value, { maxStringLength: TEXT_MAX });
}

// The text of a result that is too large, with a note of what is missing.
function shorten(data) {
  const megabytes = (form) => (JSON.stringify(form).length / (1 << 20)).toFixed(1);
  const notes = Object.keys(data).filter((mime) => mime !== 'text/plain').map((mime) => (
    `[${mime} of ${megabytes(data[mime])} MB left out: a result may have ${RESULT_MAX >> 20} MB]`));
  let text = data['text/plain'];
  if (text.length > TEXT_MAX) {
    notes.push(`[text of ${megabytes(text)} MB cut]`);
    text = text.slice(0, TEXT_MAX);
  }
  return { 'text/plain': [text, ...notes].join('\n') };
}

function makeRecord(data, isMain) {
  const size = Object.values(data).reduce((sum, form) => sum + JSON.stringify(form).length, 0);
  const kept = size > RESULT_MAX ? shorten(data) : data;
  return { type: 'result', text: kept['text/plain'], data: kept, is_main: isMain };
}

// Calls `then` with all forms of the value: at once, or later if the value makes a promise of them.
function withForms(value, then) {
  const hasBundle = value !== null && typeof value === 'object' && typeof value[BUNDLE] === 'function';
  const finish = (bundle) => {
    const data = hasBundle ? encodeBundle(bundle) : jsonForm(value);
    if (typeof data['text/plain'] !== 'string') data['text/plain'] = inspect(value);
    return then(data);
  };
  const bundle = hasBundle ? value[BUNDLE]() : undefined;
  return util.types.isPromise(bundle) ? bundle.then(finish) : finish(bundle);
}

// The value of a call.
function show(value, send) {
  return withForms(value, (data) => send(makeRecord(data, true)));
}

// display(value), display(value, { 'text/html': … }) with forms to add, display(forms, { raw: true })
function display(value, options, send) {
  if (options.raw) {
    return send(makeRecord({ 'text/plain': '', ...encodeBundle(value) }, false));
  }
  return withForms(value, (data) => (
    send(makeRecord({ ...data, ...imageForm(value), ...encodeBundle(options) }, false))));
}

module.exports = { display, inspect, show };
