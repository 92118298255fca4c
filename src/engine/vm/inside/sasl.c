/*
 * Loaded into QEMU in the place of libsasl2, which brings libcrypto along in newer distributions.
 * It logs people in who look at a machine's screen; no machine here has one.
 */
#define FAILED (-1)

int sasl_server_init(void);
int sasl_server_new(void);
int sasl_server_start(void);
int sasl_server_step(void);
int sasl_listmech(void);
int sasl_getprop(void);
int sasl_setprop(void);
int sasl_encode(void);
int sasl_decode(void);
void sasl_dispose(void);
const char *sasl_errdetail(void);
const char *sasl_errstring(void);

int sasl_server_init(void)
{
    return FAILED;
}

int sasl_server_new(void)
{
    return FAILED;
}

int sasl_server_start(void)
{
    return FAILED;
}

int sasl_server_step(void)
{
    return FAILED;
}

int sasl_listmech(void)
{
    return FAILED;
}

int sasl_getprop(void)
{
    return FAILED;
}

int sasl_setprop(void)
{
    return FAILED;
}

int sasl_encode(void)
{
    return FAILED;
}

int sasl_decode(void)
{
    return FAILED;
}

void sasl_dispose(void)
{
}

const char *sasl_errdetail(void)
{
    return "there is no SASL here";
}

const char *sasl_errstring(void)
{
    return "there is no SASL here";
}
