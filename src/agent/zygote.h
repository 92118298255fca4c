/*
 * The zygote: a copy of a warm interpreter that runs nobody's code. It makes spares, copies of
 * itself that wait to become the interpreters of contexts. Copying takes its time, so there is one
 * spare in store. There is at most one zygote, since only Python can be copied.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "agent/account.h"
#include "agent/scope.h"
#include "agent/wires.h"
#include "base/error.h"

/* Somebody who waits for the next spare. */
struct zygote_waiter {
    void (*ready)(void *owner);
    void *owner;
    struct zygote_waiter *next;
};

/*
 * Connects the zygote that an interpreter of this user, with this environment and working folder,
 * is about to leave behind; an earlier one ends. Returns the descriptor for the interpreter.
 */
int zygote_connect(const char *user, const struct account *account, char *const *env,
                   const char *cwd, struct error *err);

/*
 * A spare of this user is on its way from outside of the sandbox, made by a zygote there whose
 * environment is what this user would have with `env`. Its wires, and the link on which it says
 * that it is there, are taken over. There will be no other one.
 */
void zygote_expect(const char *user, char *const *env, int link, const struct wires *wires);

/* The user as the zygote knows it; NULL when there is no zygote of that user. */
const struct account *zygote_account(const char *user);
/* What a spare has. */
char *const *zygote_env(void);
const char *zygote_cwd(void);

/* Another folder has the name of its working folder now: spares must enter theirs anew. */
void zygote_lose_cwd(void);
/* Whether a spare can have this environment: some of it counts only when an interpreter starts. */
bool zygote_suits(char *const *env);
/* The sandbox has got its settings: a spare from outside that does not suit them ends. */
void zygote_review(void);

/* Calls back once, as soon as there is a spare or it is clear that there will be none. */
void zygote_wait(struct zygote_waiter *waiter, void (*ready)(void *owner), void *owner);
void zygote_wait_stop(struct zygote_waiter *waiter);
/* Hands the spare over, whose driver waits for commands, with its pipes and the scope it is in.
 * Returns its process id, or 0 when there is none at the moment. */
pid_t zygote_take(struct wires *wires, struct scope **scope);
