//go:build interop

package apps

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/webdav"

	"authgate/e2e/world"
)

// TestLitmus: the compliance test for WebDAV has the same results through the gateway as without
// it, with its Destinations and its conditions about other resources. The server refuses
// Destinations that are not in the form of its own address. In one set-up it has another host and
// scheme than the gateway, and in the other one another prefix.
func TestLitmus(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, "litmus")
	for _, c := range []struct{ name, upstream, route, prefix, suites string }{
		{"its own host", ", host: target", "", "/dav", "basic copymove props locks http"},
		{"its own prefix", "", ", strip_prefix: /dav", "/files", "basic copymove locks http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := startWebDAV(t, c.prefix)
			direct := litmus(t, c.suites, address+c.prefix+"/")
			if c.route != "" {
				address += c.prefix
			}
			g := world.Start(t, world.People+`
upstreams:
  files: {url: "`+address+`"`+c.upstream+`}
routes:
  - {match: /dav/, upstream: files, auth: [basic]`+c.route+`}
`)
			through := litmus(t, c.suites, g.Base+"/dav/", "service", "s3rvice")
			if diff := cmp.Diff(direct, through); diff != "" || len(direct) < 40 {
				t.Errorf("the results of %d tests (-direct +through the gateway):\n%s", len(direct), diff)
			}
		})
	}
}

// TestRclone: rclone uploads a folder, renames and copies in it by Destination, and reads it again.
func TestRclone(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, "rclone")
	g := world.Start(t, world.People+`
upstreams:
  files: {url: "`+startWebDAV(t, "/files")+`"}
routes:
  - {match: /files/, upstream: files, auth: [basic]}
`)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	world.WriteAll(t, dir, map[string]string{"a.txt": "one\n", "deep/b.txt": "two\n"})
	obscure := world.ShellIn(dir, nil, "rclone", "obscure", "s3rvice")
	obscured := strings.TrimSpace(string(world.Must(obscure.Output())(t)))
	rclone := func(args ...string) string {
		t.Helper()
		all := append([]string{"--config", "/dev/null", "--ca-cert", filepath.Join(g.Dir, g.CA),
			"--webdav-url", g.Base + "/files/", "--webdav-user", "service", "--webdav-pass", obscured}, args...)
		out, err := world.ShellIn(dir, nil, "rclone", all...).CombinedOutput()
		if err != nil {
			t.Fatalf("rclone %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	rclone("copy", ".", ":webdav:up")
	rclone("moveto", ":webdav:up/a.txt", ":webdav:up/m\u00fctter & co.txt")
	rclone("copyto", ":webdav:up/deep/b.txt", ":webdav:up/deep/c.txt")
	const want = "deep/b.txt\ndeep/c.txt\nm\u00fctter & co.txt\n"
	if got := rclone("lsf", "-R", "--files-only", ":webdav:up"); sorted(got) != sorted(want) {
		t.Errorf("the folder has\n%swant\n%s", got, want)
	}
	got := rclone("cat", ":webdav:up/m\u00fctter & co.txt") + rclone("cat", ":webdav:up/deep/c.txt")
	if got != "one\ntwo\n" {
		t.Errorf("the files have %q", got)
	}
}

// sorted returns the lines of a text in order.
func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// litmus returns the results of the tests of suites.
func litmus(t *testing.T, suites string, args ...string) map[string]string {
	t.Helper()
	cmd := world.ShellIn(t.TempDir(), []string{"TESTS=" + suites}, "litmus", append([]string{"-k"}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError // some of its tests fail in any case
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	results, suite := map[string]string{}, ""
	for _, found := range litmusLine.FindAllStringSubmatch(string(out), -1) {
		if found[1] != "" {
			suite = found[1]
			continue
		}
		results[suite+" "+found[2]] = found[3]
	}
	delete(results, "http 2. expect100") // not over TLS
	return results
}

// litmusLine is the begin of a suite, or the result of a test.
var litmusLine = regexp.MustCompile("-> running `(\\w+)'|(\\d+\\. \\w+)\\.* (pass|FAIL|SKIPPED)")

// startWebDAV starts a server of files below a prefix.
func startWebDAV(t *testing.T, prefix string) (address string) {
	files := &webdav.Handler{Prefix: prefix, FileSystem: webdav.NewMemFS(), LockSystem: webdav.NewMemLS()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Litmus") == "props: 3 (propfind_invalid2)" {
			w.WriteHeader(http.StatusBadRequest) // encoding/xml accepts the empty namespace of this test
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
