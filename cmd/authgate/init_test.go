package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/internal/test/must"
	"authgate/policy"
)

// script is a person who gives the answers of a list, and remembers what was said.
type script struct {
	answers []string // those to secret as PASSWORD|REPETITION
	said    strings.Builder
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.said, format, args...) }

func (s *script) line() (string, error) {
	if len(s.answers) == 0 {
		return "", io.EOF
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	s.say("%s\n", answer)
	return answer, nil
}

func (s *script) hidden(question string) (string, error) {
	s.say("%s", question)
	return s.line()
}

func (s *script) secret() (typed [2]string, err error) {
	answer, err := s.line()
	typed[0], typed[1], _ = strings.Cut(answer, "|")
	return typed, err
}

// converse answers the questions of init.
func converse(flags firstSteps, given []string, answers ...string) (steps firstSteps, plain, said string, err error) {
	person := &script{answers: answers}
	d := dialogue{
		steps: &flags, path: "config.yaml", given: func(flag string) bool { return slices.Contains(given, flag) },
		typist: person,
	}
	plain, err = d.ask()
	if err == nil && len(person.answers) > 0 {
		err = fmt.Errorf("the answers %q were not asked for", person.answers)
	}
	return flags, plain, person.said.String(), err
}

// defaults are the answers without a flag.
func defaults() firstSteps {
	return firstSteps{
		site:     site{Host: "localhost", Certificates: listening.TLSInternal},
		Upstream: "http://127.0.0.1:3000", App: "app", User: "admin",
	}
}

// Each answer is checked when it is given, and asked for again.
func TestInitAsksAgain(t *testing.T) {
	t.Parallel()
	const plain = "correct horse battery staple"
	steps, got, said, err := converse(defaults(), nil,
		"ngnix", "Nginx",
		"", "https://foo.example.org/path", "foo bar", "[2001:db8::1]:8443", "https://foo.example.org/",
		"nowhere", "http://127.0.0.1:4000/?x", "http://127.0.0.1:4000",
		"", "a b", "/wiki", "https://wiki.example.org/",
		"nowhere", "http://idp.example.org", "https://idp.example.org/realms/home", "", "id", "hidden ", "hidden",
		",", "bob, eve",
		"a\x01b", "alice",
		"a|a", plain+"|"+plain+"r", plain+" |"+plain+" ", plain+"|"+plain)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	want := firstSteps{
		site:     site{Front: "nginx", Host: "foo.example.org", Certificates: listening.TLSInternal},
		Upstream: "http://127.0.0.1:4000", User: "alice", App: "app",
		Place: "https://wiki.example.org/", Match: "wiki.example.org/",
		idp: idp{
			Issuer: "https://idp.example.org/realms/home", ClientID: "id", SecretFile: "example.secret", People: "bob, eve",
			secret: "hidden",
		},
	}
	if steps != want || got != plain {
		t.Errorf("it understood %+v and the password %q, expected %+v", steps, got, want)
	}
	for _, part := range []string{
		`did you mean "nginx"?`,
		"a host is needed", "give the host alone", "the lines for nginx need a name, not the address [2001:db8::1]:8443",
		`"https://foo bar" is not a URL; expected https://HOST`,
		`"nowhere" does not begin with http://`, "http://HOST:PORT",
		"[app.example.org]: ", "such as wiki.example.org",
		"Register this redirect URI there:\n  https://foo.example.org/.authgate/callback\n",
		"The client secret begins or ends with a space", "no user is named", "user names (at Google: addresses)",
		"The new password must have at least 8 characters.", "The new password and its repetition differ.",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("it does not say %q:\n%s", part, said)
		}
	}
	if strings.Contains(said, "config.yaml") {
		t.Errorf("it names a place in a file that does not exist:\n%s", said)
	}
}

// What is in front decides what is asked, and what is written.
func TestInitFronts(t *testing.T) {
	t.Parallel()
	const plain = "correct horse|correct horse"
	for name, c := range map[string]struct {
		flags   firstSteps
		given   []string
		answers []string
		public  string
		listen  listening.Listen
		mode    string
	}{
		"a test": {
			defaults(), nil, []string{"", "", "", "", "", "", plain},
			"https://localhost:8443", listening.Listen{HTTPS: "127.0.0.1:8443", HTTP: "127.0.0.1:8080"}, listening.TLSInternal,
		},
		"a test at another port": {
			firstSteps{
				site:     site{Host: "[::1]:9443", Certificates: listening.TLSInternal},
				Upstream: "http://127.0.0.1:1", User: "admin", App: "app",
			}, []string{"host"}, []string{"", "", "", "", "", plain},
			"https://[::1]:9443", listening.Listen{HTTPS: "[::1]:9443", HTTP: "[::1]:8080"}, listening.TLSInternal,
		},
		"a public name": {
			defaults(), nil, []string{"nothing", "app.example.org", "", "", "wiki", "", "", "", plain},
			"https://app.example.org", listening.Listen{HTTPS: ":443", HTTP: ":80"}, listening.TLSACME,
		},
		"a name at home": {
			defaults(), nil, []string{"nothing", "app.lan", "", "", "", "", "", "", plain},
			"https://app.lan:8443", listening.Listen{HTTPS: ":8443", HTTP: ":8080"}, listening.TLSInternal,
		},
		"a wrong authority": {
			defaults(), nil, []string{"nothing", "app.lan", "letsencrypt", "internal", "", "", "", "", "", plain},
			"https://app.lan:8443", listening.Listen{HTTPS: ":8443", HTTP: ":8080"}, listening.TLSInternal,
		},
		"a proxy": {
			defaults(), nil, []string{"caddy", "app.example.org", "", "", "", "", "", plain},
			"https://app.example.org", listening.Listen{HTTP: "127.0.0.1:8080"}, listening.TLSOff,
		},
		"flags are not asked for": {
			firstSteps{
				site:     site{Front: "haproxy", Host: "https://app.example.org/", Certificates: listening.TLSInternal},
				Upstream: "http://127.0.0.1:1", User: "eve", App: "files", Place: "app.example.org", idp: idp{Issuer: noProvider},
			}, []string{"front", "host", "upstream", "user", "app", "app-host", "issuer"}, []string{plain},
			"https://app.example.org", listening.Listen{HTTP: "127.0.0.1:8080"}, listening.TLSOff,
		},
		"wrong flags are": {
			firstSteps{
				site:     site{Front: "test", Host: "a/b"},
				Upstream: "x", User: "admin", App: "\x01", Place: "/", idp: idp{Issuer: "x"},
			},
			[]string{"front", "host", "upstream", "app", "app-host", "issuer"},
			[]string{"traefik", "app.example.org", "http://127.0.0.1:1", "wiki", "app.example.org", "none", "", plain},
			"https://app.example.org", listening.Listen{HTTP: "127.0.0.1:8080"}, listening.TLSOff,
		},
	} {
		steps, password, said, err := converse(c.flags, c.given, c.answers...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, said)
			continue
		}
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := steps.write(path, password, false); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg, err := config.Load(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		listen := cfg.Listen
		if cfg.PublicURL.String() != c.public || cfg.TLS.Mode != c.mode || listen.HTTPS != c.listen.HTTPS ||
			listen.HTTP != c.listen.HTTP || (len(listen.TrustedProxies) > 0) != (c.mode == listening.TLSOff) {
			t.Errorf("%s: %s, %s, %+v", name, cfg.PublicURL, cfg.TLS.Mode, listen)
		}
		if warnings := cfg.Warnings(); len(warnings) > 0 {
			t.Errorf("%s: %v", name, warnings)
		}
	}
}

// The start page is at / of the gateway's host, and the application at a host beside it, unless there
// can be no other one, or an answer says otherwise.
func TestInitPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, app, place, start, url, hosts string }{
		{"localhost", "app", "", "https://localhost:8443/", "https://app.localhost:8443/", "localhost app.localhost"},
		{"home.example.org", "wiki", "", "https://home.example.org:8443/", "https://wiki.example.org:8443/",
			"home.example.org wiki.example.org"},
		{"app.example.org", "app", "", "https://app.example.org:8443/", "https://app.app.example.org:8443/",
			"app.example.org app.app.example.org"},
		{"a.example.org:444", "b", "https://c.example.org:444/d", "https://a.example.org:444/", "https://c.example.org:444/d",
			"a.example.org c.example.org"},
		{"a.example.org", "b", "a.example.org/b/", "https://a.example.org:8443/", "https://a.example.org:8443/b/",
			"a.example.org"},
		{"a.example.org", "b", "https://A.example.org:8443/", "https://a.example.org:8443/.authgate/account/apps",
			"https://a.example.org:8443/", "a.example.org"},
		{"192.0.2.7", "b", "", "https://192.0.2.7:8443/.authgate/account/apps", "https://192.0.2.7:8443/", "192.0.2.7"},
		{"[2001:db8::1]", "b", "", "https://[2001:db8::1]:8443/.authgate/account/apps", "https://[2001:db8::1]:8443/",
			"[2001:db8::1]"},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		steps := defaults()
		steps.Host, steps.App, steps.Place = c.host, c.app, c.place
		must.Do(t, steps.settle(path, false))
		must.Do(t, steps.write(path, "correct horse", false))
		cfg := must.Get(config.Load(path))(t)
		if got := strings.Join(cfg.Hosts(), " ") + " "; !strings.HasPrefix(got, c.hosts+" ") || len(cfg.Warnings()) > 0 {
			t.Errorf("%s: the hosts are %s; %v", c.host, got, cfg.Warnings())
		}
		if steps.StartPage() != c.start || steps.AppURL() != c.url {
			t.Errorf("%s: the start page is %s, and the application %s", c.host, steps.StartPage(), steps.AppURL())
		}
		if app := cfg.Routes[0].App; app == nil || app.Title != c.app {
			t.Errorf("%s: the start page has %+v", c.host, app)
		}
		var said bytes.Buffer
		must.Do(t, steps.tell(&said, path))
		if !strings.Contains(said.String(), c.start) || !strings.Contains(said.String(), c.url) {
			t.Errorf("%s: the next steps are\n%s", c.host, said.String())
		}
	}
	for place, want := range map[string]string{"wiki.lan": "for this machine alone", "a b": "neither a host"} {
		steps := defaults()
		steps.Place = place
		if err := steps.settle("config.yaml", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// With an identity provider, only those of its users may pass who are named, beside the accounts here.
func TestInitProvider(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "gate.yaml")
	google := idp{Issuer: "https://accounts.google.com", ClientID: "id", People: "a@example.org, b@example.org"}
	google.SecretFile, google.secret = "google.secret", "hidden"
	steps := defaults()
	steps.Front, steps.idp = frontTest, google
	must.Do(t, steps.write(path, "correct horse", false))
	cfg := must.Get(config.Load(path))(t)
	provider, invited := cfg.Providers[0], cfg.Policies["invited"]
	if provider.Name != "google" || provider.Issuer != google.Issuer || provider.ClientID != "id" ||
		provider.ClientSecret.Reveal() != "hidden" {
		t.Errorf("the provider is %+v", provider)
	}
	want := []policy.Ref{
		{Spec: &policy.Spec{Providers: []string{"local"}}},
		{Spec: &policy.Spec{Users: []string{"google:a@example.org", "google:b@example.org"}}},
	}
	if invited == nil || !reflect.DeepEqual([]policy.Ref(invited.Any), want) ||
		cfg.Routes[0].Policy[0].Name != "invited" ||
		!slices.Contains(cfg.Routes[0].Auth, policy.OIDC) || len(cfg.Warnings()) > 0 {
		t.Errorf("who may pass: %+v, %+v, %v", invited, cfg.Routes[0], cfg.Warnings())
	}
	wantMode(t, filepath.Join(folder, "google.secret"), 0o600)
	var said bytes.Buffer
	must.Do(t, steps.tell(&said, path))
	for _, part := range []string{
		"at https://accounts.google.com:\n       https://localhost:8443/.authgate/callback\n", "gate.yaml --policy invited\n",
	} {
		if !strings.Contains(said.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, said.String())
		}
	}
	other := filepath.Join(folder, "other.yaml")
	if err := steps.write(other, "correct horse", false); err == nil || checkAbsent(other, accountsBeside(other)) != nil {
		t.Errorf("a secret that is there already: %v", err)
	}
}

// Flags for an identity provider are complete, or refused.
func TestInitProviderFlags(t *testing.T) {
	t.Parallel()
	for want, answers := range map[string]idp{
		"give its --issuer":               {Issuer: "none", ClientID: "id"},
		"give --client-id":                {Issuer: "https://idp.example.org", People: allUsers},
		"give --client-id and":            {Issuer: "https://idp.example.org", ClientID: "id"},
		"no user is named; \"all users\"": {Issuer: "https://idp.example.org", ClientID: "id", People: " , "},
	} {
		if err := answers.settle("config.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", answers, err, want)
		}
	}
	p := idp{Issuer: "https://idp.example.org", ClientID: "id", People: allUsers, SecretFile: "secrets/idp"}
	if err := p.settle("made/config.yaml"); err != nil || p.SecretFile != "../secrets/idp" || p.Users() != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for issuer, want := range map[string]string{
		"https://accounts.google.com": "google", "https://auth.example.co.uk/realms/x": "example",
		"https://keycloak.lan:8443": "keycloak", "https://127.0.0.1:9443": "provider", "https://[::1]": "provider",
		"https://local.lan": "provider",
	} {
		if got := (&idp{Issuer: issuer}).Provider(); got != want {
			t.Errorf("%s: %s, want %s", issuer, got, want)
		}
	}
}

// The end of the input ends the dialogue, wherever it is.
func TestInitWithoutAnswers(t *testing.T) {
	t.Parallel()
	answers := []string{
		"nothing", "app.example.org", "acme", "", "", "", "https://idp.example.org", "id", "", "all users", "",
		"correct horse|correct horse",
	}
	for n := range answers {
		if _, _, said, err := converse(defaults(), nil, answers[:n]...); !errors.Is(err, io.EOF) {
			t.Errorf("after %q: %v\n%s", answers[:n], err, said)
		}
	}
}

// It says what comes next.
func TestInitTellsWhatIsNext(t *testing.T) {
	t.Parallel()
	acme, proxied := defaults(), defaults()
	acme.Host, acme.Front, acme.Certificates = "app.example.org", frontNothing, listening.TLSACME
	proxied.Host, proxied.Front = "app.example.org", "caddy"
	other := acme
	other.Host = "app.example.org:9443"
	test := defaults()
	test.Front = frontTest
	for _, c := range []struct {
		steps     firstSteps
		says, not []string
	}{
		{test, []string{
			"authgate serve --config made/config.yaml", "made/data/ca.pem", "https://localhost:8443/",
			"authgate add --config made/config.yaml",
			"https://localhost:8443/.authgate/account/apps",
		}, []string{"setcap", "DNS"}},
		{acme, []string{"ports 80 and 443", "setcap cap_net_bind_service=+ep ", "systemd unit", ".deb", "DNS",
			"https://app.example.org/"}, []string{"ca.pem"}},
		{other, []string{"ports 80 and 9443 through the firewall"}, []string{"80 and 443"}},
		{proxied, []string{
			"in the place of what it has for\n     app.example.org", "reverse_proxy 127.0.0.1:8080", "https://app.example.org/",
		}, []string{"setcap", "ca.pem"}},
	} {
		var said bytes.Buffer
		if err := c.steps.tell(&said, "made/config.yaml"); err != nil {
			t.Error(err)
		}
		for _, part := range c.says {
			if !strings.Contains(said.String(), part) {
				t.Errorf("with %s in front it does not say %q:\n%s", c.steps.Front, part, said.String())
			}
		}
		for _, part := range c.not {
			if strings.Contains(said.String(), part) {
				t.Errorf("with %s in front it says %q:\n%s", c.steps.Front, part, said.String())
			}
		}
	}
}

// A mistake in a flag has no place in a file that is not written.
func TestInitNamesNoPlaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	cmd := initCommand()
	cmd.SetArgs([]string{"--yes", "--config", path, "--upstream", "nowhere"})
	err := cmd.Execute()
	if _, wrong := errors.AsType[*usageError](err); !wrong || strings.Contains(err.Error(), "config.yaml") ||
		!strings.HasPrefix(err.Error(), "upstreams.app.url: ") {
		t.Errorf("an address without a scheme: %v", err)
	}
}

// A shell takes the commands that it prints as they are.
func TestInitQuotesPaths(t *testing.T) {
	t.Parallel()
	steps := defaults()
	steps.Front = frontTest
	var said bytes.Buffer
	must.Do(t, steps.tell(&said, "alice's files/config.yaml"))
	if want := `authgate serve --config 'alice'\''s files/config.yaml'` + "\n"; !strings.Contains(said.String(), want) {
		t.Errorf("it does not print %s:\n%s", want, said.String())
	}
}

// A password that cannot be printed is lost, which is a failure.
func TestInitReportsLostPassword(t *testing.T) {
	t.Parallel()
	closed, out := io.Pipe()
	must.Do(t, closed.Close())
	cmd := initCommand()
	cmd.SetArgs([]string{"--yes", "--config", filepath.Join(t.TempDir(), "config.yaml")})
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "run init again with --force") {
		t.Errorf("without a place for the password: %v", err)
	}
}

// The lines for proxies are those of the document, which tests run with the real proxies.
func TestProxyLinesAreDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/how-to/behind-a-proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	indent := regexp.MustCompile(`(?m)^[ \t]+`)
	for _, front := range fronts {
		steps := defaults()
		steps.Host, steps.Front = "app.example.org", front
		if !steps.Proxied() {
			continue
		}
		_, lines, err := steps.proxyLines()
		if err != nil || len(lines) == 0 {
			t.Fatalf("%s: %q, %v", front, lines, err)
		}
		if !strings.Contains(indent.ReplaceAllString(string(document), ""), indent.ReplaceAllString(string(lines), "")) {
			t.Errorf("docs/how-to/behind-a-proxy.md does not have the lines of init for %s:\n%s", front, lines)
		}
	}
}

// The lines for proxies lead both hosts to the gateway.
func TestProxyLinesHaveBothHosts(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]string{
		"nginx": "server_name home.example.org wiki.example.org;", "caddy": "home.example.org, wiki.example.org {\n",
		"traefik": "rule = \"Host(`home.example.org`) || Host(`wiki.example.org`)\"\n",
		"haproxy": "if { req.hdr(host),field(1,:) -i home.example.org wiki.example.org }\n",
	} {
		steps := defaults()
		steps.Host, steps.Front, steps.App = "home.example.org", front, "wiki"
		must.Do(t, steps.settle("config.yaml", false))
		if _, lines, err := steps.proxyLines(); err != nil || !strings.Contains(string(lines), want) {
			t.Errorf("%s: %v\n%s", front, err, lines)
		}
	}
}

// A host with a port has it in the lines for proxies too.
func TestProxyLinesHavePort(t *testing.T) {
	t.Parallel()
	usual := regexp.MustCompile(`\b443\b`)
	for _, front := range fronts {
		steps := defaults()
		steps.Host, steps.Front = "app.example.org:8443", front
		if !steps.Proxied() {
			continue
		}
		place, lines, err := steps.proxyLines()
		if text := place + "\n" + string(lines); err != nil || !strings.Contains(text, "8443") || usual.MatchString(text) {
			t.Errorf("%s: %v, the port 8443 is not in\n%s", front, err, text)
		} else if strings.Contains(text, "$host") && !strings.Contains(text, "$host:8443;") {
			t.Errorf("%s: the application gets a Host without the port, by which it writes links:\n%s", front, text)
		}
	}
}

// Comments are in one column, and the configuration is written as people write it.
func TestInitAligns(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "a-host-with-a-long-name.sub.domain.example.org"} {
		steps := defaults()
		steps.Host, steps.Accounts = host, "accounts.yaml"
		if err := steps.settle("config.yaml", false); err != nil {
			t.Fatal(err)
		}
		text, err := fill(initTemplate, &steps)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\t") {
			t.Errorf("a tab is left:\n%s", text)
		}
		if found := regexp.MustCompile(`(?m)^[^#\n]*\S +# `).FindAllString(string(text), -1); len(found) < 8 ||
			slices.ContainsFunc(found, func(one string) bool { return len(one) != len(found[0]) }) {
			t.Errorf("comments are not in one column:\n%s", text)
		}
	}
}

// A folder for the configuration is made, so that no answer is lost.
func TestInitMakesFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "gate", "config.yaml")
	steps := defaults()
	must.Do(t, steps.write(path, "correct horse battery staple", false))
	if _, err := config.Load(path); err != nil {
		t.Error(err)
	}
}

// What --force replaces keeps its data_dir, its owner and the readers in its group. So the service
// of a package can still read its configuration, and no other user can.
func TestInitForceKeeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode os.FileMode
		want os.FileMode
	}{
		"its group reads":      {0o640, 0o640},
		"its owner alone":      {0o600, 0o600},
		"everybody could read": {0o646, 0o640},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		for file, text := range map[string]string{path: "data_dir: /var/lib/authgate\n", accountsBeside(path): "[]\n"} {
			if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, c.mode)); err != nil {
				t.Fatal(err)
			}
		}
		var said bytes.Buffer
		cmd := initCommand()
		cmd.SetArgs([]string{"--yes", "--force", "--config", path})
		cmd.SetOut(&said)
		if err := cmd.Execute(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg, err := config.Load(path)
		if err != nil || cfg.DataDir != "/var/lib/authgate" {
			t.Errorf("%s: the configuration is %+v, %v", name, cfg, err)
		}
		if !strings.Contains(said.String(), "/var/lib/authgate/ca.pem") {
			t.Errorf("%s: it names another file to trust:\n%s", name, said.String())
		}
		for _, file := range []string{path, accountsBeside(path)} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != c.want {
				t.Errorf("%s: %s is %v, %v, expected %v", name, file, info, err, c.want)
			}
		}
	}
}

// A client secret is for those who read the configuration: the service of a package.
func TestInitForceSharesSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Do(t, os.Chmod(path, 0o640))
	steps := defaults()
	steps.Front = frontTest
	steps.idp = idp{
		Issuer: "https://idp.lan", ClientID: "id", People: allUsers, SecretFile: "idp.secret", secret: "hidden",
	}
	must.Do(t, steps.write(path, "correct horse", true))
	wantMode(t, filepath.Join(filepath.Dir(path), "idp.secret"), 0o640)
}

// Where a package has the configuration, its service runs the gateway.
func TestInitNamesTheService(t *testing.T) {
	t.Parallel()
	steps := defaults()
	steps.Front = frontTest
	var said bytes.Buffer
	if err := steps.tell(&said, packagedConfig); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); !strings.Contains(text, "systemctl enable --now authgate\n") ||
		strings.Contains(text, "authgate serve") {
		t.Errorf("it does not name the service:\n%s", text)
	}
}
