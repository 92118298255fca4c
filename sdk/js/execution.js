// What came of code and commands.
class Output {
  constructor(data) {
    this.data = data;
  }

  #text(stream) {
    const lines = this.data.output ?? [];
    return lines.filter((line) => line.stream === stream).map((line) => line.text).join('\n');
  }

  /** What was printed on stdout, without white space around it. */
  async output() {
    return this.#text('stdout').trim();
  }

  /** What was printed on stderr. */
  async error() {
    return this.#text('stderr').trim();
  }

  get hasErrorText() {
    return this.#text('stderr') !== '';
  }
}

export class Execution extends Output {
  get status() {
    return this.data.status ?? 'unknown';
  }

  get language() {
    return this.data.language ?? 'unknown';
  }

  /** Values and pictures in all their forms, as docs/contexts.md describes them. */
  get results() {
    return this.data.results ?? [];
  }

  hasError() {
    return this.status === 'error' || this.status === 'exception' || this.hasErrorText;
  }
}

export class CommandExecution extends Output {
  get command() {
    return this.data.command ?? '';
  }

  get args() {
    return this.data.args ?? [];
  }

  get exitCode() {
    return this.data.exit_code ?? -1;
  }

  get success() {
    return this.data.success === true;
  }
}
