package cli

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
)

// TestInitOnTerminal: init asks on a terminal, takes the default for an empty answer, asks
// again after an answer that is wrong, and asks for the password without echo.
func TestInitOnTerminal(t *testing.T) {
	t.Parallel()
	const plain = "correct horse battery staple"
	term, path := openTerminal(t), filepath.Join(t.TempDir(), "config.yaml")
	cmd := exec.Command(world.Program("authgate"), "init", "--config", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.line, term.line, term.line
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ended := world.Spawn(t, cmd)
	for _, asked := range []struct {
		question, answer string
		hidden           bool
	}{
		{"In front [test]: ", "nothing", false},
		{"such as home.example.org: ", "https://gate.example.org/", false},
		{"[acme]: ", "", false},
		{"[http://127.0.0.1:3000]: ", "nowhere", false},
		{"unix+h2c:/PATH\r\nAddress of the application [http://127.0.0.1:3000]: ", "", false},
		{"such as wiki [app]: ", "wiki", false},
		{"users open it [wiki.example.org]: ", "", false},
		{"such as https://accounts.google.com [none]: ", "https://idp.example.org", false},
		{"https://gate.example.org/.authgate/callback\r\nClient ID that it gives: ", "gateway", false},
		{"it gives none: ", "tumble-weed", true},
		{"or \"all users\": ", "eve", false},
		{"[admin]: ", "alice", false},
		{"Password: ", "a", true},
		{"Again: ", "a", true},
		{"at least 8 characters.\r\nPassword: ", plain, true},
		{"Again: ", plain + "r", true},
		{"its repetition differ.\r\nPassword: ", plain, true},
		{"Again: ", plain, true},
	} {
		world.Until(t, asked.question, func() bool {
			return strings.HasSuffix(term.screen.String(), asked.question) && term.echo(t) != asked.hidden
		})
		world.Must(io.WriteString(term.keys, asked.answer+"\n"))(t)
	}
	<-ended
	if !cmd.ProcessState.Success() || strings.Contains(term.screen.String(), "horse") ||
		strings.Contains(term.screen.String(), "tumble") {
		t.Fatalf("%v: %s", cmd.ProcessState, term.screen.String())
	}
	world.Until(t, "what comes next", func() bool { return strings.Contains(term.screen.String(), "setcap") })
	cfg := world.Must(config.Load(path))(t)
	if secret := cfg.Providers[0].ClientSecret.Reveal(); secret != "tumble-weed" ||
		cfg.Routes[0].Match != "wiki.example.org/" {
		t.Errorf("the answers became %q, %s", secret, cfg.Routes[0].Match)
	}
	user, upstream := cfg.Accounts.Users[0], cfg.Upstreams["wiki"].URL.String()
	if cfg.PublicURL.String() != "https://gate.example.org" || cfg.TLS.Mode != listening.TLSACME ||
		upstream != "http://127.0.0.1:3000" || user.Username != "alice" || !isHashOf(user.PasswordHash.Reveal(), plain) {
		t.Errorf("the answers became %v, %s, %s, %s", cfg.PublicURL, cfg.TLS.Mode, upstream, user.Username)
	}
}
