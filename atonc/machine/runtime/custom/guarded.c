
/* Runs one call of a C operator of the user on this computer, twice, in memory where a wrong access ends it.
 *
 * `atonc_call.h` has COUNT, the buffers and the call. Inputs come by stdin, one after the other. Every buffer begins at a
 * cache line, as on the chip. In the first run the page behind it is out of bounds, in the second the page in front of
 * it; what is left of its pages holds a pattern that must stay, and outputs another one, so that what a function does
 * not write differs between the runs. Both runs give their outputs by stdout; what went wrong is one line on stderr.
 * With an argument there is the first run only.
 * Whatever the function itself prints is thrown away. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINE = 32, MARGIN = 65536 };
#define MEMORY ((rlim_t)2 << 30) /* for the program and what it allocates */
typedef enum { INPUT, OUTPUT, SCRATCH } role;
typedef struct { const char *name; size_t bytes; role role; } described;

#include "atonc_call.h"

typedef struct { unsigned char *mapped, *data; size_t room; } placed;

static placed now[COUNT];
static int results, complaints; /* stdout and stderr, which the function does not have */
static volatile sig_atomic_t calling;

/* How much may be written to files: nothing while the function runs. */
static void allow(rlim_t bytes)
{
    const struct rlimit files = { bytes, RLIM_INFINITY };
    setrlimit(RLIMIT_FSIZE, &files);
}

static void fail(const char *text) __attribute__((noreturn));
static void fail(const char *text)
{
    allow(RLIM_INFINITY);
    (void)!write(complaints, text, strlen(text));
    _exit(3);
}

/* Says which buffer the address is nearest to; everything it needs is there already. */
static void faulted(int number, siginfo_t *info, void *context)
{
    static char text[400];
    const unsigned char *at = info->si_addr;
    (void)context;
    if (calling && (number == SIGSEGV || number == SIGBUS)) {
        for (int k = 0; k < COUNT; k++) {
            const placed *one = &now[k];
            if (at >= one->mapped && at < one->mapped + one->room + 2 * MARGIN) {
                long offset = (long)(at - one->data);
                int inside = offset >= 0 && (size_t)offset < buffers[k].bytes;
                snprintf(text, sizeof text, "%s byte %ld of %s, which has %zu bytes\n",
                         inside ? "it writes" : "it touches", offset, buffers[k].name, buffers[k].bytes);
                fail(text);
            }
        }
    }
    const char *what = number == SIGFPE ? "it divides by zero" : number == SIGABRT ? "it calls abort()"
                     : number == SIGILL ? "it runs an instruction that is none" : "it touches memory that is not its own";
    snprintf(text, sizeof text, "%s%s\n", calling ? "" : "outside the call: ", what);
    fail(text);
}

static placed place(const described *one, int second)
{
    placed made;
    made.room = (one->bytes + MARGIN) / MARGIN * MARGIN;
    made.mapped = mmap(NULL, made.room + 2 * MARGIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.mapped == MAP_FAILED || mprotect(made.mapped + MARGIN, made.room, PROT_READ | PROT_WRITE)) {
        fail("its buffers do not fit into the memory of this computer\n");
    }
    size_t end = (one->bytes + LINE - 1) / LINE * LINE;
    made.data = made.mapped + MARGIN + (second ? 0 : made.room - end);
    memset(made.mapped + MARGIN, second ? 0x5A : 0xA5, made.room);
    return made;
}

static void check(const described *one, const placed *at, int second)
{
    const unsigned char pattern = second ? 0x5A : 0xA5;
    static char text[400];
    for (const unsigned char *byte = at->mapped + MARGIN; byte < at->mapped + MARGIN + at->room; byte++) {
        if ((byte < at->data || byte >= at->data + one->bytes) && *byte != pattern) {
            snprintf(text, sizeof text, "it writes byte %ld of %s, which has %zu bytes\n",
                     (long)(byte - at->data), one->name, one->bytes);
            fail(text);
        }
    }
}

static void give(const unsigned char *data, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(results, data, bytes);
        if (done <= 0) {
            _exit(4);
        }
        data += done;
        bytes -= (size_t)done;
    }
}

int main(int count, char **words)
{
    static unsigned char stack[65536];
    stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action = { .sa_sigaction = faulted, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    const struct rlimit seconds = { SECONDS, SECONDS + 1 }, none = { 0, 0 };
    struct rlimit memory = { MEMORY, MEMORY };
    const pid_t self = getpid();
    const int runs = count > 1 ? 1 : 2;
    void *at[COUNT];
    unsigned char *given[COUNT];

    (void)words;
    results = dup(1);
    complaints = dup(2);
    dup2(open("/dev/null", O_WRONLY), 1);
    dup2(1, 2);
    for (int k = 0; k < COUNT; k++) {
        given[k] = malloc(buffers[k].bytes + 1);
        if (!given[k] || (buffers[k].role == INPUT && fread(given[k], 1, buffers[k].bytes, stdin) != buffers[k].bytes)) {
            _exit(4);
        }
        memory.rlim_cur = memory.rlim_max += 3 * (buffers[k].bytes + 3 * MARGIN);
    }
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &none);
    sigaltstack(&other, NULL);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        sigaction(numbers[k], &action, NULL);
    }
    for (int second = 0; second < runs; second++) {
        for (int k = 0; k < COUNT; k++) {
            now[k] = place(&buffers[k], second);
            at[k] = now[k].data;
            if (buffers[k].role == INPUT) {
                memcpy(now[k].data, given[k], buffers[k].bytes);
                mprotect(now[k].mapped + MARGIN, now[k].room, PROT_READ);
            }
        }
        allow(0);
        calling = 1;
        call(at);
        calling = 0;
        if (getpid() != self) {
            _exit(0); /* a process that the function made */
        }
        allow(RLIM_INFINITY);
        for (int k = 0; k < COUNT; k++) {
            check(&buffers[k], &now[k], second);
            if (buffers[k].role == OUTPUT) {
                give(now[k].data, buffers[k].bytes);
            }
        }
    }
    _exit(0);
}
