//go:build interop

package apps

import (
	"context"
	"net/http"

	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// TestMinIO: rclone keeps objects by S3, with MinIO's own keys and signatures and no login, and
// gives one away by a signed link. An administrator signs in at the console, whose WebSocket shows
// the objects; no other user sees the console.
func TestMinIO(t *testing.T) {
	t.Parallel()
	m := startMinIO(t)
	names := []string{"a+b & c.txt", "100%/m\u00fctter?.txt", "back\\slash.txt", "tea%2Ftime.txt"}
	for _, name := range names {
		world.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(m.dir, "up", name)), 0o700))
		world.WriteAll(t, filepath.Join(m.dir, "up"), map[string]string{name: name})
	}
	world.WriteAll(t, filepath.Join(m.dir, "up"), map[string]string{"large.bin": strings.Repeat("earl grey\n", 1<<20)})
	m.rclone(t, "copy", "up", ":s3:tea")
	m.rclone(t, "check", "--download", "up", ":s3:tea")
	if got := m.s3.Values("Authorization"); len(got) == 0 || !strings.HasPrefix(got[0], "AWS4-HMAC-SHA256 ") {
		t.Errorf("MinIO got the signatures %.100q", got)
	}
	link := strings.TrimSpace(m.rclone(t, "link", ":s3:tea/"+names[0]))
	if status, body := curl(t, m.g, link); status != "200" || body != names[0] {
		t.Errorf("a signed link: %s %s", status, body)
	}
	if status, _ := curl(t, m.g, link+"0"); status != "403" {
		t.Errorf("a link with another signature: %s", status)
	}
	if status, _ := curl(t, m.g, "--path-as-is", m.g.Base+"/tea/dots/../dots"); status != "400" || m.s3.Has("dots") {
		t.Errorf("an object with dot segments: %s", status)
	}
	m.console(t)
	if m.s3.Has("session_id=") || len(m.s3.Values("X-Auth-User")) > 0 {
		t.Error("the API of S3 got a login of the gateway")
	}
	m.ui.WantUser(t, "alice", "session_id=")
}

// minIO is MinIO behind a gateway: S3 at localhost, and the console at a host of its own.
type minIO struct {
	g      *world.Instance
	s3, ui *world.Tap
	dir    string
	home   string // URL of the console
}

// The keys of MinIO's administrator.
const (
	minIOUser     = "keeper"
	minIOPassword = "of-the-storage"
)

func startMinIO(t *testing.T) *minIO {
	t.Helper()
	s3, ui := world.FreeAddress(t), world.FreeAddress(t)
	m := &minIO{g: world.Prepare(t), s3: world.StartTap(t, s3), ui: world.StartTap(t, ui), dir: t.TempDir()}
	port := m.g.Base[strings.LastIndexByte(m.g.Base, ':'):]
	m.g.Public, m.home = "https://login.example.org"+port, "https://console.example.org"+port
	m.g.Configure(world.People + policiesOfPages + world.Substituted(t,
		world.DocumentedApp(t, "minio.md", "s3", m.s3.URL), "http://127.0.0.1:9001", m.ui.URL, "s3.example.org/",
		"localhost/"))
	m.g.Run()
	world.NoError(t, os.MkdirAll(filepath.Join(m.dir, ".minio", "certs", "CAs"), 0o700))
	world.WriteAll(t, filepath.Join(m.dir, ".minio", "certs", "CAs"), map[string]string{
		"gateway.crt": world.ReadFile(t, filepath.Join(m.g.Dir, m.g.CA))})
	world.Launch(t, "http://"+s3+"/minio/health/ready", world.ShellIn(m.dir, []string{"MINIO_SERVER_URL=" + m.g.Base,
		"MINIO_BROWSER_REDIRECT_URL=" + m.home, "MINIO_ROOT_USER=" + minIOUser, "MINIO_ROOT_PASSWORD=" + minIOPassword},
		world.FindProgram(t, world.Path("bin/interop/minio")), "server", filepath.Join(m.dir, "data"), "--address", s3,
		"--console-address", ui))
	return m
}

// rclone runs rclone with the keys of MinIO, and returns its output.
func (m *minIO) rclone(t *testing.T, args ...string) string {
	t.Helper()
	all := append([]string{"--config", "/dev/null", "--ca-cert", filepath.Join(m.g.Dir, m.g.CA), "--quiet",
		"--s3-provider", "Minio", "--s3-endpoint", m.g.Base, "--s3-access-key-id", minIOUser, "--s3-secret-access-key",
		minIOPassword, "--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi"}, args...)
	return runs(t, world.ShellIn(m.dir, []string{"AWS_CA_BUNDLE="}, world.FindProgram(t, "rclone"), all...))
}

// console uses the console as a stranger, as bob, who is no administrator, and as alice.
func (m *minIO) console(t *testing.T) {
	t.Helper()
	browser := func() world.Surfer {
		return world.Surf(t, "127.0.0.1", world.Authority(m.g.Base), m.g.TLS().RootCAs)
	}
	signs := func(v world.Surfer, by string) world.Answer {
		a, _ := v.Visit("POST", m.home+"/api/v1/login?by="+by, `{"accessKey":"`+minIOUser+`","secretKey":"`+
			minIOPassword+`"}`, "Content-Type", world.TypeJSON, "Origin", m.home, "Sec-Fetch-Site", "same-origin")
		return a
	}
	world.WantStatus(t, "the console, without a login", signs(browser(), "stranger"), http.StatusUnauthorized)
	bob := browser()
	a, _ := bob.SignIn(m.home+"/", "bob")
	world.WantStatus(t, "the console, for bob", a, http.StatusForbidden)
	world.WantStatus(t, "a login of the console, for bob", signs(bob, "bob"), http.StatusForbidden)
	if m.ui.Has("by=") {
		t.Error("a request that is refused reached the console")
	}
	alice := browser()
	if a, _ = alice.SignIn(m.home+"/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>MinIO Console") {
		t.Fatalf("the console: %d %.300s", a.Status, a.Body)
	}
	world.WantStatus(t, "a login of the console", signs(alice, "alice"), http.StatusNoContent)
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, m.home+"/ws/objectManager",
		&websocket.DialOptions{HTTPClient: alice.Client, HTTPHeader: http.Header{"Origin": {m.home}}})
	world.NoError(t, err)
	world.NoError(t, socket.Write(ctx, websocket.MessageText,
		[]byte(`{"mode":"objects","bucket_name":"tea","prefix":"","request_id":1}`)))
	if _, shown, err := socket.Read(ctx); err != nil || !strings.Contains(string(shown), "large.bin") {
		t.Errorf("the console's WebSocket: %v %s", err, shown)
	}
	_ = socket.CloseNow() // it may be closed
}
