/*
 * The keeper: the host process that owns exactly one sandbox and outlives whoever started it.
 *
 *   clients ──frames──▶ keeper ──frames──▶ agent
 *
 * It is started with its owner's socket and reads there, first of all, OP_START
 * with the sandbox's settings. It then makes the state folder, starts the machine, makes it
 * unlike its twins, and answers. From then on it passes operations of all clients to the agent
 * and their outcome back (route.c), answers a few itself, and watches the clock.
 *
 * Who dies first: the machine dies with the keeper (the kernel kills it), so a keeper that is
 * killed leaves only its state folder, which the next sweep removes. An attached sandbox ends when
 * its owner's connection does.
 */
#pragma once

/* The whole life of the process; returns its exit code. */
int keeper_main(int owner_socket);
