#pragma once

/* The call fails and says so in the variable `err` with this code. */
#define assert_refused(call, expected)                                                             \
    do {                                                                                           \
        err = (struct error){0};                                                                   \
        assert_true((call) < 0);                                                                   \
        assert_int_equal(err.code, expected);                                                      \
    } while (0)
