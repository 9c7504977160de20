/* A machine whose clock is wrong: adds the seconds that the file WRONG_CLOCK names to the time of day.
 *
 * Loaded before the C library into a test's operator. Must not touch any other clock. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("WRONG_CLOCK");
    if (failed || clock != CLOCK_REALTIME || !path) return failed;
    char seconds[32] = {0};
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    if (read(file, seconds, sizeof seconds - 1) > 0) time->tv_sec += atol(seconds);
    close(file);
    return 0;
}
