package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set at link time: -ldflags "-X main.version=v1.2.3".
var version = ""

type versionCommand struct{}

// Run prints the version, the commit if known, and what it was built with.
func (versionCommand) Run(p *program) error {
	fmt.Fprintln(p.stdout, versionLine())
	return nil
}

func versionLine() string {
	return fmt.Sprintf("cairn %s %s %s/%s", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			return info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}
