package examples

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// docShell is a shell into which a test types what a document shows.
type docShell struct {
	t     *testing.T
	dir   string
	place func(string) string // puts ports of the test in the place of those of the document
	after map[string]string   // what the test does after a command that begins so
}

// check types the commands of a document and compares what each prints.
func (s *docShell) check(doc *world.Document, commands []command) {
	s.t.Helper()
	for i, printed := range s.run(commands) {
		c := commands[i]
		if expected := s.place(c.expected); !matches(expected, printed) {
			s.t.Errorf("%s:%d: $ %s\nprinted:\n%s\nthe document has:\n%s", doc.Name, c.line, c.text, printed, expected)
		}
	}
}

// run types the commands into one shell and returns what each printed. What they
// start in the background ends with the shell.
func (s *docShell) run(commands []command) []string {
	s.t.Helper()
	const mark = "--- end of output ---"
	var script strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&script, "%s\n", s.place(c.text))
		for beginning, then := range s.after {
			if strings.HasPrefix(c.text, beginning) {
				fmt.Fprintf(&script, "%s\n", s.place(then))
			}
		}
		fmt.Fprintf(&script, "printf '\\n%s\\n'\n", mark)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", script.String())
	bash.Dir = s.dir
	bash.Env = append(os.Environ(), "HOME="+s.dir, "CURL_HOME="+s.dir,
		"PATH="+world.Programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	output, err := bash.CombinedOutput()
	printed := strings.Split(string(output), "\n"+mark+"\n")
	if err != nil || len(printed) != len(commands)+1 {
		s.t.Fatalf("the shell stopped after %d of %d commands: %v\n%s", len(printed)-1, len(commands), err, output)
	}
	return printed[:len(commands)]
}

var (
	spacesAtEnd = regexp.MustCompile(`(?m)[ \r]+$`)
	anyLines    = regexp.MustCompile(`(?m)^…\n`)
)

// matches compares what was printed with what a document has. Spaces at the
// end of lines and empty lines at the end do not count.
func matches(expected, printed string) bool {
	tidy := func(text string) string {
		return strings.TrimRight(spacesAtEnd.ReplaceAllString(text, ""), "\n") + "\n"
	}
	pattern := anyLines.ReplaceAllString(regexp.QuoteMeta(tidy(expected)), `(?:.*\n)*`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(pattern, "…", ".*") + `\z`).MatchString(tidy(printed))
}
