package deploy

import (
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/config/listening"
	"authgate/internal/test/must"
)

// packaged is the configuration of the .deb and the .rpm.
const packaged = "../../packaging/etc"

// TestPackagedConfiguration checks that the configuration of packages is valid and
// closed as it is, and valid after the changes that its comments propose.
func TestPackagedConfiguration(t *testing.T) {
	m := newMachine(t)
	m.copy(packaged+"/config.yaml", etc+"/config.yaml")
	m.copy(packaged+"/accounts.yaml", etc+"/accounts.yaml")
	m.dir("/var/lib/authgate")
	text := read(t, m.root+etc+"/config.yaml")
	cfg := m.configuration(etc + "/config.yaml")
	for _, address := range []string{cfg.Listen.HTTPS, cfg.Listen.Admin} {
		if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
			t.Errorf("other machines can reach %q (%v)", address, err)
		}
	}
	if cfg.Listen.HTTP != "" || len(cfg.Accounts.Users) != 0 || cfg.DataDir != m.root+"/var/lib/authgate" {
		t.Errorf("the configuration has listen.http %q, %d accounts and data_dir %q", cfg.Listen.HTTP,
			len(cfg.Accounts.Users), cfg.DataDir)
	}
	m.explain("401", "GET", "/")
	m.explain("401", "POST", "/any/path")

	for before, after := range map[string]string{ // the comment of the line has the new value
		"public_url: https://localhost:8443": "public_url: https://app.example.org",
		`https: "127.0.0.1:8443"`:            `https: ":443"`,
		`http: ""`:                           `http: ":80"`, "mode: internal": "mode: acme",
		"# email: admin@example.org": "email: admin@example.org",
	} {
		_, value, _ := strings.Cut(after, ": ")
		if line := regexp.MustCompile(`(?m)^.*` + regexp.QuoteMeta(before) + `.*$`).FindString(text); !strings.Contains(line,
			"EDIT") || !strings.Contains(line, value) {
			t.Errorf("the configuration does not say how to change %s to %s: %s", before, after, line)
		}
		text = strings.Replace(text, before, after, 1)
	}
	m.file(etc+"/config.yaml", text)
	m.file(etc+"/accounts.yaml", strings.NewReplacer("# - username", "- username", "#   ", "  ", "\n[]", "",
		`"$argon2id$v=19$..."`, `"`+hash+`"`).Replace(read(t, packaged+"/accounts.yaml")))
	cfg = m.configuration(etc + "/config.yaml")
	same(t, "the ports and certificates", []string{cfg.Listen.HTTPS, cfg.Listen.HTTP, cfg.TLS.Mode},
		[]string{":443", ":80", listening.TLSACME})
	m.explain("200", "--as", "alice", "GET", "/")
}

// explain checks what the gateway does with a request, by the status in the last line
// of the decision.
func (m *machine) explain(status string, args ...string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), world.Program("authgate"),
		append([]string{"explain", "--config", m.root + etc + "/config.yaml"}, args...)...)
	out := string(must.Get(cmd.CombinedOutput())(m.t))
	if !strings.Contains(out, "("+status+")\n") {
		m.t.Errorf("%q is not %s:\n%s", args, status, out)
	}
}
