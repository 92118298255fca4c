// JSON-RPC to the server.
import { randomUUID } from 'node:crypto';

const DEFAULT_URL = 'http://127.0.0.1:5555';

/** What the server said. `code` is its text code, `hint` what to do about it. */
export class SandboxError extends Error {
  constructor(message, data = {}) {
    super(message);
    this.name = 'SandboxError';
    this.code = data.code;
    this.hint = data.hint;
    this.data = data;
  }
}

function resultOf(message) {
  if (message.error) {
    throw new SandboxError(message.error.message, message.error.data ?? message.error);
  }
  return message.result;
}

export class Connection {
  constructor(url, key) {
    this.url = (url ?? process.env.MSB_SERVER_URL ?? DEFAULT_URL).replace(/\/+$/, '');
    this.key = key ?? process.env.MSB_API_KEY;
    if (!/^https?:\/\/[^/]/.test(this.url)) {
      throw new TypeError(`"${this.url}" is no address of a server; it begins with http:// or https://`);
    }
  }

  async request(path, options = {}) {
    const headers = { ...options.headers };
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    try {
      return await fetch(this.url + path, { ...options, headers });
    } catch (error) {
      if (error.name === 'AbortError' || error.name === 'TimeoutError') throw error;
      const reason = error.cause?.message ?? error.message;
      throw new Error(`no server answers at ${this.url} (${reason}); "msb server start" starts one`,
        { cause: error });
    }
  }

  #post(method, params, signal) {
    return this.request('/api/v1/rpc', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: randomUUID(), method, params }),
      signal,
    });
  }

  async call(method, params, signal) {
    return resultOf(await (await this.#post(method, params, signal)).json());
  }

  /** A call that is answered with server-sent events: {event, data} as they come. */
  async* events(method, params, signal) {
    const answer = await this.#post(method, params, signal);
    if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) {
      resultOf(await answer.json());
      return;
    }
    let rest = '';
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      const events = (rest + piece).split('\n\n');
      rest = events.pop();
      for (const text of events) {
        const [event, data] = text.split('\n').map((line) => line.slice(line.indexOf(': ') + 2));
        yield { event, data: JSON.parse(data) };
      }
    }
  }
}
