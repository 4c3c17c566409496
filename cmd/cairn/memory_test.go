package main

import (
	"os"
	"testing"
)

func TestMemoryLimitIsTheLeastOfTheControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":           {nil, 0},
		"version 2":      {map[string]string{"/proc/self/cgroup": "0::/a.slice/b.service\n", "/sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "/sys/fs/cgroup/a.slice/memory.max": "268435456\n"}, 256 << 20},
		"in a container": {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "134217728\n"}, 128 << 20},
		"version 1": {map[string]string{
			"/proc/self/cgroup": "12:cpu,cpuacct:/x\n9:memory:/docker/1\n", "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "9223372036854771712\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "/sys/fs/cgroup/x/memory.max": "1\n",
		}, 512 << 20},
		"nonsense": {map[string]string{"/proc/self/cgroup": "\n:\n0::\n", "/sys/fs/cgroup/memory.max": "-1"}, 0},
	} {
		got := memoryLimit(func(file string) ([]byte, error) {
			if text, ok := c.files[file]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		same(t, name, got, c.want)
	}
}
