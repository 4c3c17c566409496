// Preloaded into the program: a file beside each write-ahead log is made as long as the log was when it
// was last written to the disk, so that a power cut can be played.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int synced(const char *name, int fd) {
	char link[64], path[4096] = "";
	struct stat before = {0};
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 16);
	int failed = fstat(fd, &before) || ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
	if (!failed && n > 4 && strcmp(path + n - 4, "-wal") == 0)
		failed = truncate(strcat(path, ".synced"), before.st_size);
	return failed;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
