//go:build interop

package apps

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// These tests start applications from Debian, each as its page in docs/applications says,
// and use them with the clients of their users. Only `make interop` runs them.

// policiesOfPages are those that the pages name.
const policiesOfPages = "policies: {staff: {roles: [user]}, admin: {roles: [admin]}}\n"

// behindPage starts the gateway of a page in front of an application at an address.
func behindPage(t *testing.T, page, upstream, address, more string) (*world.Instance, *world.Tap) {
	t.Helper()
	up := world.StartTap(t, address)
	return world.Start(t, world.People+more+world.AtLocalhost(world.DocumentedApp(t, page, upstream, up.URL))), up
}

// curl runs curl, which trusts the gateway's authority, and returns the status and the body.
func curl(t *testing.T, g *world.Instance, args ...string) (status, body string) {
	t.Helper()
	cmd := exec.Command("curl", append([]string{"--silent", "--show-error", "--cacert", filepath.Join(g.Dir, g.CA),
		"--write-out", "\n%{http_code}"}, args...)...)
	out := runs(t, cmd)
	at := strings.LastIndexByte(out, '\n')
	return out[at+1:], out[:at]
}

// TestRadicale: a client keeps a calendar with an API token as its password, and another user
// cannot read it, nor claim to be the first one.
func TestRadicale(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), world.FreeAddress(t)
	world.WriteAll(t, dir, map[string]string{"radicale.conf": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/radicale.md", "radicale.conf"), "127.0.0.1:5232", address,
		"/srv/radicale", filepath.Join(dir, "data"))})
	world.Launch(t, "http://"+address+"/.web/", exec.Command(world.FindProgram(t, "radicale"), "--config",
		filepath.Join(dir, "radicale.conf")))
	g, up := behindPage(t, "radicale.md", "radicale", address, "")
	token, others := g.APIToken("alice"), g.APIToken("bob")
	calendar := g.Base + "/alice/home/"
	wants := func(what, want string, args ...string) string {
		t.Helper()
		status, body := curl(t, g, args...)
		if status != want {
			t.Errorf("%s: %s, expected %s\n%s", what, status, want, body)
		}
		return body
	}
	wants("a client without a password", "401", "-X", "PROPFIND", calendar)
	if up.Has("PROPFIND") {
		t.Error("a request without a password reached Radicale")
	}
	wants("the well-known place, without a password", "301", g.Base+"/.well-known/caldav")
	wants("a new calendar", "201", "-u", "alice:"+token, "-X", "MKCALENDAR", calendar)
	wants("a new event", "201", "-u", "alice:"+token, "-T", "testdata/event.ics", calendar+"event.ics")
	wants("a move of the event", "201", "-u", "alice:"+token, "-X", "MOVE", "-H", "Destination: "+calendar+"moved.ics",
		calendar+"event.ics")
	report := `<calendar-query xmlns="urn:ietf:params:xml:ns:caldav" xmlns:d="DAV:"><d:prop><calendar-data/></d:prop>` +
		`<filter><comp-filter name="VCALENDAR"/></filter></calendar-query>`
	if body := wants("a query", "207", "-u", "alice:"+token, "-X", "REPORT", "-H", "Depth: 1", "-d", report,
		calendar); !strings.Contains(body, "SUMMARY:Tea with the hatter") || !strings.Contains(body, "moved.ics") {
		t.Errorf("the query does not find the event:\n%s", body)
	}
	wants("bob, who says that he is alice", "403", "-u", "bob:"+others, "-H", "X-Remote-User: alice", "-H",
		"x_remote_user: alice", calendar+"moved.ics")
	if got := up.Values("X-Remote-User"); !slices.Equal(got, []string{"alice", "bob"}) {
		t.Errorf("Radicale got the users %q", got)
	}
	if up.Has(token) || len(up.Values("Authorization")) > 0 {
		t.Error("Radicale got the credential")
	}
}

// TestRegistry: skopeo pushes an image and copies it back, with an API token as the password that
// the registry seems to ask for. Who may only pull does not push.
func TestRegistry(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, "skopeo")
	dir, address := t.TempDir(), world.FreeAddress(t)
	up, g := world.StartTap(t, address), world.Prepare(t)
	world.WriteAll(t, dir, map[string]string{"registry.yml": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/registry.md", "registry.yml"), "127.0.0.1:5000", address,
		"/srv/registry", filepath.Join(dir, "data"), "https://registry.example.org", g.Base)})
	world.Launch(t, "http://"+address+"/", exec.Command(world.FindProgram(t, "docker-registry"), "serve",
		filepath.Join(dir, "registry.yml")))
	g.Configure(world.People + world.AtLocalhost(strings.ReplaceAll(world.DocumentedApp(t, "registry.md", "registry",
		up.URL), "roles: [staff, admin]", "roles: [admin]")))
	g.Run()
	layer := imageLayout(t, filepath.Join(dir, "image"))
	world.NoError(t, os.Mkdir(filepath.Join(dir, "trust"), 0o700))
	world.WriteAll(t, filepath.Join(dir, "trust"), map[string]string{
		"ca.crt": world.ReadFile(t, filepath.Join(g.Dir, g.CA))})
	image := "docker://" + strings.TrimPrefix(g.Base, "https://") + "/team/hello:1"
	skopeo := func(args ...string) (string, error) {
		all := append([]string{"--insecure-policy"}, args...)
		out, err := world.ShellIn(dir, nil, "skopeo", all...).CombinedOutput()
		return string(out), err
	}
	push := func(credential string) (string, error) {
		return skopeo("copy", "--dest-cert-dir", "trust", "--dest-creds", credential, "oci:image:1", image)
	}
	if out, err := push("alice:agt_wrong"); err == nil {
		t.Errorf("a push with a wrong token: %s", out)
	}
	pulls := "bob:" + g.APIToken("bob")
	if out, err := push(pulls); err == nil {
		t.Errorf("bob may only pull, and pushes: %s", out)
	}
	if up.Has("PUT ") || up.Has("PATCH ") || up.Has("POST ") {
		t.Error("a push that is refused reached the registry")
	}
	token := g.APIToken("alice")
	if out, err := push("alice:" + token); err != nil {
		t.Fatalf("a push: %v\n%s", err, out)
	}
	if out, err := skopeo("copy", "--src-cert-dir", "trust", "--src-creds", pulls, image, "oci:copy:1"); err != nil {
		t.Fatalf("a pull: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "copy", "blobs", "sha256", layer)); err != nil {
		t.Errorf("the image that came back has another layer: %v", err)
	}
	if up.Has(token) || len(up.Values("Authorization")) > 0 {
		t.Error("the registry got the credential")
	}
}

// imageLayout writes an image with one file, with the tag 1, into a folder of the OCI's form. It
// returns the digest of its layer.
func imageLayout(t *testing.T, dir string) (layer string) {
	t.Helper()
	blobs := filepath.Join(dir, "blobs", "sha256")
	world.NoError(t, os.MkdirAll(blobs, 0o700))
	blob := func(kind, content string) (digest, descriptor string) {
		digest = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		world.WriteAll(t, blobs, map[string]string{digest: content})
		return digest, fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%s","size":%d}`, kind, digest, len(content))
	}
	const kinds = "application/vnd.oci.image."
	const greeting = "hello from the registry\n"
	plain, packed := &bytes.Buffer{}, &bytes.Buffer{}
	archive, packer := tar.NewWriter(plain), gzip.NewWriter(packed)
	world.NoError(t, archive.WriteHeader(&tar.Header{Name: "greeting", Mode: 0o644, Size: int64(len(greeting))}))
	world.Must(archive.Write([]byte(greeting)))(t)
	world.NoError(t, archive.Close())
	world.Must(packer.Write(plain.Bytes()))(t)
	world.NoError(t, packer.Close())
	layer, layerBlob := blob(kinds+"layer.v1.tar+gzip", packed.String())
	_, config := blob(kinds+"config.v1+json", fmt.Sprintf(`{"architecture":"amd64","os":"linux",`+
		`"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(plain.Bytes())))
	_, manifest := blob(kinds+"manifest.v1+json", `{"schemaVersion":2,"mediaType":"`+kinds+`manifest.v1+json",`+
		`"config":`+config+`,"layers":[`+layerBlob+`]}`)
	tagged := strings.TrimSuffix(manifest, "}") + `,"annotations":{"org.opencontainers.image.ref.name":"1"}}`
	world.WriteAll(t, dir, map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`,
		"index.json": `{"schemaVersion":2,"manifests":[` + tagged + `]}`})
	return layer
}

// TestSyncthing: an administrator opens the page, which answers for the gateway's host, and its
// scripts change settings. A program uses the API with a token of the gateway beside Syncthing's key.
func TestSyncthing(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), world.FreeAddress(t)
	program := world.FindProgram(t, "syncthing")
	runs(t, world.ShellIn(dir, []string{"STNODEFAULTFOLDER=1"}, program, "generate", "--home="+dir))
	config := world.ReadFile(t, filepath.Join(dir, "config.xml"))
	for _, outside := range []string{"globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled",
		"crashReportingEnabled"} {
		config = world.Substituted(t, config, "<"+outside+">true<", "<"+outside+">false<")
	}
	config = world.Substituted(t, config, "<listenAddress>default<", "<listenAddress>tcp://127.0.0.1:0<")
	world.WriteAll(t, dir, map[string]string{"config.xml": config})
	world.Launch(t, "http://"+address+"/", world.ShellIn(dir, nil, program, "--no-browser", "--no-restart",
		"--no-upgrade", "--home="+dir, "--gui-address=http://"+address))
	g, up := behindPage(t, "syncthing.md", "syncthing", address, policiesOfPages)
	v := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	a, _ := v.SignIn(g.Base+"/", "alice")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "Syncthing") {
		t.Fatalf("the page: %d %.300s", a.Status, a.Body)
	}
	var guard string // Syncthing's own cookie and header against other sites
	for _, cookie := range v.Jar.Cookies(world.Must(http.NewRequest("GET", g.Base+"/", http.NoBody))(t).URL) {
		if strings.HasPrefix(cookie.Name, "CSRF-Token") {
			guard = cookie.Name
			a, _ = v.Visit("PATCH", g.Base+"/rest/config/options", `{"progressUpdateIntervalS":7}`, "X-"+cookie.Name,
				cookie.Value, "Content-Type", world.TypeJSON, "Origin", g.Base, "Sec-Fetch-Site", "same-origin")
			world.WantStatus(t, "a change of the settings", a, http.StatusOK)
		}
	}
	if guard == "" {
		t.Error("the page sets no cookie of Syncthing")
	}
	key := regexp.MustCompile(`<apikey>([^<]+)<`).FindStringSubmatch(config)[1]
	token := g.APIToken("alice")
	status, body := curl(t, g, "-H", "Authorization: Bearer "+token, "-H", "X-API-Key: "+key,
		g.Base+"/rest/config/options")
	if status != "200" || !strings.Contains(body, `"progressUpdateIntervalS": 7`) {
		t.Errorf("the settings, by the API: %s %s", status, body)
	}
	if status, body := curl(t, g, "-H", "X-API-Key: "+key, g.Base+"/rest/system/stranger"); status != "401" ||
		up.Has("stranger") {
		t.Errorf("the API with Syncthing's key alone: %s %s", status, body)
	}
	up.WantUser(t, "alice", token, "session_id=")
}

// TestTransmission: transmission-remote asks with an API token as its password, and a user opens
// the page.
func TestTransmission(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, "transmission-remote")
	dir, address := t.TempDir(), world.FreeAddress(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	world.WriteAll(t, dir, map[string]string{"settings.json": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/transmission.md", "settings.json"), "9091", port)})
	world.Launch(t, "http://"+address+"/transmission/web/", world.ShellIn(dir, nil,
		world.FindProgram(t, "transmission-daemon"), "--foreground", "--config-dir", dir, "--no-dht", "--no-lpd",
		"--no-utp", "--no-portmap", "--peerport", world.FreePort(t), "--download-dir", dir))
	g, up := behindPage(t, "transmission.md", "transmission", address, policiesOfPages)
	token := g.APIToken("alice")
	remote := func(credential string, args ...string) string {
		out, _ := world.ShellIn(dir, nil, "transmission-remote", append([]string{g.Base + "/transmission/rpc", "-n",
			credential}, args...)...).CombinedOutput() // the output tells
		return string(out)
	}
	if out := remote("alice:agt_wrong", "-si"); up.Has("/transmission/rpc") {
		t.Errorf("a wrong token reached Transmission: %s", out)
	}
	if out := remote("alice:"+token, "--downlimit", "77"); !strings.Contains(out, "success") {
		t.Errorf("a change: %s", out)
	}
	if out := remote("alice:"+token, "-si"); !strings.Contains(out, "Download speed limit: 77 kB/s") {
		t.Errorf("the settings: %s", out)
	}
	v := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := v.SignIn(g.Base+"/transmission/web/", "bob"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>Transmission") {
		t.Errorf("the page: %d %.300s", a.Status, a.Body)
	}
	if up.Has(token) || up.Has("session_id=") || len(up.Values("Authorization")) > 0 {
		t.Error("Transmission got the credential")
	}
}
