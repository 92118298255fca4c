/* Forms as a client sends them, cut into pieces at will: the first byte says how large these are.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "server/http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Every event deals with bytes, or more are needed. */
static int take(struct multipart *multipart, struct buf *in)
{
    struct error err;
    size_t used;
    for (;;) {
        int event = multipart_next(multipart, buf_data(in), buf_length(in), &used, &err);
        if (used > buf_length(in))
            abort();
        if (event < 0 || event == MULTIPART_MORE || event == MULTIPART_END)
            return event;
        if (used == 0)
            abort();
        buf_consume(in, used);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    cleanup_buf struct buf in = {0};
    struct multipart multipart;
    if (length == 0 || !multipart_init(&multipart, "multipart/form-data; boundary=b"))
        return 0;
    size_t piece = (size_t)bytes[0] + 1;
    for (size_t at = 1; at < length; at += piece) {
        buf_append(&in, bytes + at, piece < length - at ? piece : length - at);
        if (take(&multipart, &in) != MULTIPART_MORE)
            break;
    }
    return 0;
}
