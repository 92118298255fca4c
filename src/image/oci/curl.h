/*
 * libcurl, loaded when it is first needed: it brings dozens of libraries, which would cost every
 * start of msb milliseconds.
 */
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/error.h"

struct curl_library {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *handle, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *handle, CURLINFO info, ...);
    CURLHcode (*easy_header)(CURL *handle, const char *name, size_t index, unsigned origin,
                             int request, struct curl_header **header);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *handle);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
    CURLMcode (*multi_add_handle)(CURLM *multi, CURL *handle);
    CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *handle);
    CURLMcode (*multi_perform)(CURLM *multi, int *running);
    CURLMcode (*multi_poll)(CURLM *multi, struct curl_waitfd *extra, unsigned count, int timeout_ms,
                            int *ready);
    CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
    CURLMcode (*multi_cleanup)(CURLM *multi);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

/* NULL, with what to install, when the host has none. */
const struct curl_library *curl_load(struct error *err);
