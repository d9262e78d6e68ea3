package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Programs is the folder of the programs of the repository.
var Programs string

// Main runs the tests of a package, once the programs are there, and returns the exit
// status. The programs have the race detector. make builds them and names the folder
// above theirs in AUTHGATE_PROGRAMS. Without it, Main builds the programs that have
// changed.
func Main(m *testing.M) int { return run(m, "race", "-race") }

// MainOfMany is Main for packages that start hundreds of processes, where the race detector
// would take most of the time. Their programs are built without it: tests of other packages
// send them many requests at once.
func MainOfMany(m *testing.M) int { return run(m, "plain") }

func run(m *testing.M, folder string, flags ...string) int {
	// Otherwise each program with the race detector sleeps for a second when it ends.
	err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	if built := os.Getenv("AUTHGATE_PROGRAMS"); built != "" {
		Programs = filepath.Join(built, folder)
	} else if Programs = filepath.Join(Path("bin/e2e"), folder); err == nil {
		err = Build("", append(flags, "authgate/cmd/authgate", "authgate/cmd/upstream", "authgate/cmd/demo")...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	return m.Run()
}

// Build builds programs into the folder of the programs: go build with flags and packages
// in a folder of the repository, which builds nothing that is up to date. The lock is for
// packages whose tests run at the same time.
func Build(folder string, args ...string) error {
	if err := os.MkdirAll(Programs, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(Programs, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	args = append([]string{"build", "-C", Path(folder), "-o", Programs + string(filepath.Separator)}, args...)
	if output, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// Program is the path of one of the programs.
func Program(name string) string { return filepath.Join(Programs, name) }

// Path is the path of a file or folder of the repository, such as docs/http.md.
func Path(name string) string {
	top := "."
	for range 4 { // from the folder of a package
		if _, err := os.Stat(filepath.Join(top, "e2e", "go.mod")); err == nil {
			break
		}
		top = filepath.Join(top, "..")
	}
	path, err := filepath.Abs(filepath.Join(top, name))
	if err != nil {
		return name // the folder is gone
	}
	return path
}
