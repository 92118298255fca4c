#pragma once

/* Tells systemd that the server answers, if it was started by a unit of Type=notify. */
void notify_ready(void);
