#include "session/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

/* Raised with the table's shape: a file of another version is replaced. */
#define SHAPE 1

struct store {
    sqlite3 *db;
    sqlite3_stmt *put, *remove, *each, *begin, *end;
};

static const char setup[] = "PRAGMA journal_mode = WAL;"
                            "PRAGMA synchronous = OFF;"
                            "CREATE TABLE IF NOT EXISTS sandbox ("
                            " namespace TEXT NOT NULL, sandbox TEXT NOT NULL, id TEXT NOT NULL,"
                            " grouping TEXT NOT NULL, template TEXT NOT NULL, image TEXT NOT NULL,"
                            " language TEXT NOT NULL, flavor TEXT NOT NULL, volumes TEXT NOT NULL,"
                            " state INTEGER NOT NULL, cpus INTEGER NOT NULL,"
                            " memory_mb INTEGER NOT NULL, created_us INTEGER NOT NULL,"
                            " created INTEGER NOT NULL, accessed INTEGER NOT NULL,"
                            " idle INTEGER NOT NULL, lifetime INTEGER NOT NULL,"
                            " PRIMARY KEY (namespace, sandbox)) WITHOUT ROWID;";

static int run(struct store *store, sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (result == SQLITE_DONE || result == SQLITE_ROW)
        return 0;
    log_error("cannot write down a session: %s", sqlite3_errmsg(store->db));
    return -1;
}

static sqlite3_stmt *prepare(struct store *store, const char *text)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_prepare_v3(store->db, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    return statement;
}

static bool has_other_shape(struct store *store)
{
    sqlite3_stmt *statement = prepare(store, "PRAGMA user_version");
    int shape = -1;
    if (statement && sqlite3_step(statement) == SQLITE_ROW)
        shape = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return shape != 0 && shape != SHAPE;
}

static bool set_up(struct store *store, const char *path)
{
    char shape[64];
    snprintf(shape, sizeof shape, "PRAGMA user_version = %d", SHAPE);
    if (sqlite3_open(path, &store->db) != SQLITE_OK || has_other_shape(store) ||
        sqlite3_exec(store->db, setup, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(store->db, shape, NULL, NULL, NULL) != SQLITE_OK)
        return false;
    store->put = prepare(store, "INSERT OR REPLACE INTO sandbox VALUES"
                                " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    store->remove = prepare(store, "DELETE FROM sandbox WHERE namespace = ? AND sandbox = ?");
    store->each = prepare(store, "SELECT * FROM sandbox ORDER BY accessed");
    store->begin = prepare(store, "BEGIN");
    store->end = prepare(store, "COMMIT");
    return store->put && store->remove && store->each && store->begin && store->end;
}

static void remove_files(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        cleanup_free char *file = xasprintf("%s%s", path, suffixes[i]);
        unlink(file);
    }
}

struct store *store_open(const char *path, struct error *err)
{
    mode_t mask = umask(077);
    for (int attempt = 0; attempt < 2; attempt++) {
        struct store *store = xcalloc(1, sizeof *store);
        if (set_up(store, path)) {
            umask(mask);
            return store;
        }
        error_set(err, ERROR_IO, "cannot use %s: %s", path, sqlite3_errmsg(store->db));
        error_hint(err, "check that the folder can be written to and has free space");
        store_close(store);
        if (attempt == 0) {
            log_warn("%s; it is begun anew", err->message);
            remove_files(path);
        }
    }
    umask(mask);
    return NULL;
}

void store_close(struct store *store)
{
    sqlite3_finalize(store->put);
    sqlite3_finalize(store->remove);
    sqlite3_finalize(store->each);
    sqlite3_finalize(store->begin);
    sqlite3_finalize(store->end);
    sqlite3_close(store->db);
    free(store);
}

void store_put(struct store *store, const struct store_row *row)
{
    const char *const texts[] = {row->namespace, row->sandbox,  row->id,
                                 row->group,     row->template, row->image,
                                 row->language,  row->flavor,   row->volumes};
    const uint64_t numbers[] = {row->state,   row->cpus,     row->memory_mb, row->created_us,
                                row->created, row->accessed, row->idle,      row->lifetime};
    int column = 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        sqlite3_bind_text(store->put, column++, texts[i], -1, SQLITE_STATIC);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sqlite3_bind_int64(store->put, column++, (sqlite3_int64)numbers[i]);
    run(store, store->put);
}

void store_forget(struct store *store, const char *namespace, const char *sandbox)
{
    sqlite3_bind_text(store->remove, 1, namespace, -1, SQLITE_STATIC);
    sqlite3_bind_text(store->remove, 2, sandbox, -1, SQLITE_STATIC);
    run(store, store->remove);
}

void store_begin(struct store *store)
{
    run(store, store->begin);
}

void store_end(struct store *store)
{
    run(store, store->end);
}

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

static uint64_t number_at(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

static struct store_row read_row(sqlite3_stmt *at)
{
    uint64_t state = number_at(at, 9);
    return (struct store_row){
        .namespace = text_at(at, 0),
        .sandbox = text_at(at, 1),
        .id = text_at(at, 2),
        .group = text_at(at, 3),
        .template = text_at(at, 4),
        .image = text_at(at, 5),
        .language = text_at(at, 6),
        .flavor = text_at(at, 7),
        .volumes = text_at(at, 8),
        .state = state < SESSION_STATES ? (enum session_state)state : SESSION_STOPPED,
        .cpus = (unsigned)number_at(at, 10),
        .memory_mb = (unsigned)number_at(at, 11),
        .created_us = number_at(at, 12),
        .created = number_at(at, 13),
        .accessed = number_at(at, 14),
        .idle = number_at(at, 15),
        .lifetime = number_at(at, 16),
    };
}

void store_each(struct store *store, void (*take)(void *context, const struct store_row *row),
                void *context)
{
    while (sqlite3_step(store->each) == SQLITE_ROW) {
        struct store_row row = read_row(store->each);
        take(context, &row);
    }
    sqlite3_reset(store->each);
}
