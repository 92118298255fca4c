/*
 * What the frames mean: operations, channels, field tags and their numbers. docs/agent-protocol.md
 * explains them; this file is the only place where the numbers stand.
 */
#pragma once

#define PROTOCOL_VERSION 1

/* Bytes of FRAME_DATA that each side may send on a new stream before it gets credit. */
#define PROTOCOL_WINDOW (256u * 1024)
/* A connection has at most this many operations under way. */
#define PROTOCOL_STREAMS_MAX 1024

/* The detail of FRAME_OPEN. */
enum operation {
    /* answered by the agent */
    OP_EXEC = 1, /* run a command: ARG…, ENV…, CWD, USER, TIMEOUT_MS, PTY with ROWS and COLS */
    OP_RUN,      /* run code in a context: LANGUAGE, TIMEOUT_MS; the code comes on CHANNEL_STDIN */
    OP_ADOPT,    /* become a sandbox: ENTROPY, REALTIME_US, NAME, USER, ENV…, CWD, VOLUME… */
    OP_QUIESCE,  /* get ready for a snapshot: warm the contexts LANGUAGE…, write everything out */
    OP_SHUTDOWN, /* end all processes, write everything out, power off */
    /* files, as USER, relative paths below CWD; with PARENTS missing folders on the way to what is
     * made are made too */
    OP_FILE_READ,    /* PATH, OFFSET, LENGTH; the contents come on CHANNEL_STDOUT */
    OP_FILE_WRITE,   /* PATH, MODE, APPEND; the contents go on CHANNEL_STDIN */
    OP_FILE_STAT,    /* PATH; one record on CHANNEL_RESULTS */
    OP_FILE_LIST,    /* PATH, DEPTH, LIMIT; a record for each entry */
    OP_FILE_MAKE,    /* PATH, MODE: a folder */
    OP_FILE_REMOVE,  /* PATH, RECURSIVE */
    OP_FILE_RENAME,  /* PATH, TARGET */
    OP_FILE_COPY,    /* PATH, TARGET, RECURSIVE */
    OP_FILE_WATCH,   /* PATH, RECURSIVE: a record for each change, until it is cancelled */
    OP_FILE_CHANGES, /* PATH, LIMIT: at the EOF of CHANNEL_STDIN, a record for each file that has
                      * changed since the first record */
    /* contexts */
    OP_CONTEXT_MAKE,    /* LANGUAGE, CONTEXT, CWD, ENV…; END carries STATUS, a JSON object */
    OP_CONTEXT_LIST,    /* a record for each */
    OP_CONTEXT_RESTART, /* CONTEXT */
    OP_CONTEXT_REMOVE,  /* CONTEXT */
    /* commands that run already */
    OP_PROCESS_LIST,   /* a record for each */
    OP_PROCESS_ATTACH, /* PID: like the stream that started it, what it printed last comes first */
    OP_PROCESS_SIGNAL, /* PID, SIGNAL */
    OP_PROCESS_INPUT,  /* PID, CLOSE; what comes on CHANNEL_STDIN goes to its stdin */
    /* TCP: bytes go in on CHANNEL_STDIN and come out on CHANNEL_STDOUT */
    OP_CONNECT, /* PORT: a connection to that port inside */
    OP_ACCEPT,  /* PORT, ADDRESS: waits for somebody inside to connect to it; EVENT then */
    OP_METRICS, /* END carries STATUS, a JSON object */
    OP_HOLD,    /* EVENT, then silence until a frame comes: a copy is made meanwhile */
    OP_CLOCK,   /* REALTIME_US: the machine has stood still */
    /* answered by the keeper */
    OP_START = 64, /* first on the owner's connection: CONFIG; ends when the sandbox is ready */
    OP_STATUS,     /* END carries STATUS, a JSON object */
    OP_STOP,       /* end the sandbox; ends when it cannot act any more */
    OP_PAUSE,
    OP_RESUME,
    OP_SAVE,    /* PATH, a folder of the host: writes the sandbox down; END carries STATUS */
    OP_PREPARE, /* before OP_START: CONFIG without a name; ends when the machine waits for that */
};

/* The detail of FRAME_DATA and FRAME_EOF. */
enum channel {
    CHANNEL_STDIN = 0,
    CHANNEL_STDOUT = 1,
    CHANNEL_STDERR = 2,
    CHANNEL_RESULTS = 3, /* records, each a u32 length and that much JSON */
    CHANNEL_COUNT,
};

/* Field tags. Numbers are u64; texts are UTF-8 without NUL, except where bytes are said. */
enum tag {
    /* HELLO */
    TAG_VERSION = 1, /* number */
    TAG_KERNEL,      /* text: release of the kernel the agent runs on */
    /* requests */
    TAG_ARG,         /* text, one per argument, the program first */
    TAG_ENV,         /* text: NAME=value */
    TAG_CWD,         /* text */
    TAG_USER,        /* text: a name or a number, optionally ":group" */
    TAG_TIMEOUT_MS,  /* number; 0 or absent: none */
    TAG_PTY,         /* number: 1 for a terminal of its own */
    TAG_ROWS,        /* number */
    TAG_COLS,        /* number */
    TAG_TERM,        /* text: the kind of terminal, TERM */
    TAG_LANGUAGE,    /* text: python, node, bash or another name of these */
    TAG_ENTROPY,     /* bytes, at least 32 */
    TAG_REALTIME_US, /* number: microseconds since 1970 */
    TAG_NAME,        /* text: host name */
    TAG_VOLUME,      /* text: INDEX:ro|rw:GUEST-PATH, INDEX a folder of the share, "": all */
    TAG_CONFIG,      /* text: the sandbox's settings as JSON */
    /* CONTROL */
    TAG_SIGNAL, /* number: to the command's foreground; in END: the signal that ended it */
    TAG_CANCEL, /* number: 1 kills everything the operation started */
    /* EVENT */
    TAG_PID, /* number: the operation's process, as numbered inside */
    /* END */
    TAG_VERDICT,     /* text: verdict_name; absent: it worked */
    TAG_EXIT_CODE,   /* number */
    TAG_DURATION_US, /* number */
    TAG_ERROR_CODE,  /* text: error_code_name */
    TAG_MESSAGE,     /* text */
    TAG_HINT,        /* text */
    TAG_STATE_LOST,  /* number: 1 when the context had to be replaced */
    TAG_STATUS,      /* text: JSON */
    /* requests for files */
    TAG_PATH,      /* bytes without NUL */
    TAG_TARGET,    /* bytes without NUL: the new path */
    TAG_OFFSET,    /* number */
    TAG_LENGTH,    /* number; absent: to the end */
    TAG_MODE,      /* number: permission bits */
    TAG_APPEND,    /* number: 1 adds to the end */
    TAG_PARENTS,   /* number: 1 */
    TAG_RECURSIVE, /* number: 1 for folders with all they hold */
    TAG_DEPTH,     /* number: levels of folders to list; absent: 1 */
    TAG_LIMIT,     /* number: entries to list at most */
    /* contexts and commands */
    TAG_CONTEXT,      /* text: its id; absent: the first of its language */
    TAG_COUNT,        /* number, in END: calls its context has had */
    TAG_KEEP,         /* number: 1 lets the command go on when its client leaves; in ADOPT: what is
                       * written goes to the disk that outlives the machine */
    TAG_DETACH,       /* number, in CONTROL: 1 ends the stream but not the command */
    TAG_CLOSE,        /* number: 1 closes stdin afterwards */
    TAG_PORT,         /* number */
    TAG_OUTPUT_LIMIT, /* number: bytes of output to pass on; the rest is counted only */
    TAG_OUTPUT_BYTES, /* number, in END: all of the output, when more than that */
    TAG_PROCESSES,    /* number, in ADOPT: how many there may be at once */
    TAG_OPEN_FILES,   /* number, in ADOPT: how many each process may have open */
    TAG_KILLED,       /* text, in END: the process that was killed for want of memory */
    TAG_BENEATH,      /* number: 1 when PATH must lie below CWD, whatever links say */
    TAG_REHEARSAL,    /* number, in RUN: 1 leaves no trace; in ADOPT: 1 says that another follows */
    TAG_ADDRESS,      /* number, in ACCEPT: one of 127.0.0.0/8; absent: 127.0.0.1 */
    TAG_HOST,         /* text, in ADOPT: a line for /etc/hosts */
};
