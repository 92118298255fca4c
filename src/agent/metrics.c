#include "agent/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/group.h"
#include "agent/oom.h"
#include "agent/scope.h"
#include "base/file.h"

#define TEXT_MAX 65536

static uint64_t cpu_us_before;

/* The number behind a word of a file such as /proc/meminfo; 0 when it is not there. */
static uint64_t number_in(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

/* All processors: user, nice, system, (idle, iowait,) irq, softirq. */
static uint64_t processor_time_us(void)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    unsigned long long spent[7] = {0};
    if (file_read("/proc/stat", TEXT_MAX * 16, &text, &ignored) < 0 ||
        strncmp(buf_text(&text), "cpu ", 4) != 0)
        return 0;
    char *at = (char *)buf_data(&text) + 4;
    for (size_t i = 0; i < 7; i++)
        spent[i] = strtoull(at, &at, 10);
    unsigned long long ticks = spent[0] + spent[1] + spent[2] + spent[5] + spent[6];
    return ticks * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static uint64_t count_processes(void)
{
    int64_t counted = scope_count_processes();
    if (counted < 0)
        counted = group_processes() - 1; /* without us */
    if (counted >= 0)
        return (uint64_t)counted;
    uint64_t count = 0;
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        count += strtoul(entry->d_name, NULL, 10) > 1;
    if (folder)
        closedir(folder);
    return count;
}

static void add_memory(struct buf *json)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    int64_t used = group_memory_used(), total = group_memory_limit();
    if (used < 0 || total <= 0) {
        if (file_read("/proc/meminfo", TEXT_MAX, &text, &ignored) < 0)
            return;
        total = (int64_t)number_in(buf_text(&text), "MemTotal:") * 1024;
        used = total - (int64_t)number_in(buf_text(&text), "MemAvailable:") * 1024;
    }
    buf_printf(json, ",\"memory_used\":%" PRId64 ",\"memory_total\":%" PRId64, used, total);
}

/* The root is an overlay, which answers for the disk that is written to. */
static void add_disk(struct buf *json)
{
    struct statvfs disk;
    if (statvfs("/", &disk) < 0)
        return;
    uint64_t unit = disk.f_frsize;
    buf_printf(json, ",\"disk_used\":%" PRIu64 ",\"disk_total\":%" PRIu64,
               (disk.f_blocks - disk.f_bfree) * unit, disk.f_blocks * unit);
    buf_printf(json, ",\"files_used\":%" PRIu64 ",\"files_total\":%" PRIu64,
               (uint64_t)(disk.f_files - disk.f_ffree), (uint64_t)disk.f_files);
}

void metrics_begin(void)
{
    cpu_us_before = processor_time_us();
}

void metrics_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    (void)fields, (void)length;
    cleanup_buf struct buf json = {0};
    buf_printf(&json, "{\"cpu_us\":%" PRIu64 ",\"processes\":%" PRIu64 ",\"memory_kills\":%" PRIu64,
               processor_time_us() - cpu_us_before, count_processes(), oom_count());
    add_memory(&json);
    add_disk(&json);
    buf_append_text(&json, "}");
    buf_text(&json);
    stream_end(stream, &(struct outcome){.status = (char *)buf_data(&json)});
}
