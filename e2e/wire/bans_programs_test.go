//go:build interop

package wire

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
)

const (
	bansPage    = "docs/how-to/banning-addresses.md"
	fail2banEtc = "packaging/etc/fail2ban"
	crowdsecEtc = "packaging/etc/crowdsec"
	crowdsecHub = "/usr/share/crowdsec/hub"
)

// judged are the addresses to ban: guessers, and clients that policies refuse.
type judged struct{ Guess, Denied []string }

// offendedLog returns a folder with the log of a gateway, authgate.log, and its audit.jsonl. It got each request of
// offences from an address of its own sixty times. want are the addresses to ban.
func offendedLog(t *testing.T) (dir string, want judged) {
	t.Helper()
	dir = t.TempDir()
	g, secret := startBans(t, "trusted_proxies: [127.0.0.1], ", "log: {audit_file: "+dir+"/audit.jsonl}\n")
	mistype(g, secret)
	for id, address := range offences(t, g, secret, 60) {
		switch {
		case id == "ban-denied":
			want.Denied = append(want.Denied, address)
		case strings.HasPrefix(id, "ban-"):
			want.Guess = append(want.Guess, address)
		}
	}
	slices.Sort(want.Guess)
	world.WriteAll(t, dir, map[string]string{"authgate.log": g.Log.String()})
	return dir, want
}

// mistype sends what users mistype, and then get right, from one address: passwords, codes of an app and of a device.
func mistype(g *world.Instance, secret string) {
	g.T.Helper()
	signIn := func(status int, user, password, code string) {
		g.T.Helper()
		body := fmt.Sprintf(`{"username":%q,"password":%q,"code":%q}`, user, password, code)
		answer := g.Do(g.Stranger(), "POST", "/login", body, "Content-Type", world.TypeJSON,
			"X-Forwarded-For", "203.0.113.9")
		world.WantStatus(g.T, "the login of "+user, answer, status)
	}
	signIn(401, "bob", "typo", "")
	signIn(401, "bob", "typo again", "")
	signIn(200, "bob", world.Passwords["bob"], "")
	signIn(401, "carol", "wonderland", wrongCode(g.T, secret))
	signIn(401, "carol", "wonderland", wrongCode(g.T, secret))
	signIn(200, "carol", "wonderland", world.Must(authenticator.Code(secret, time.Now().Add(30*time.Second)))(g.T))
	bob := g.SignIn(g.Stranger(), "bob")
	for _, code := range []string{"BCDF-GHJK", "BCDF-GHJL"} {
		answer := g.Do(g.Stranger(), "POST", "/device", "user_code="+code, "Content-Type", world.TypeForm,
			"Cookie", bob.Session, "Origin", g.Base, "X-Forwarded-For", "203.0.113.9")
		world.WantStatus(g.T, "a wrong code of a device", answer, http.StatusBadRequest)
	}
}

// copyInto copies files into a folder below dir.
func copyInto(t *testing.T, dir, folder string, files ...string) {
	t.Helper()
	all := map[string]string{}
	for _, name := range files {
		all[filepath.Base(name)] = string(world.Must(os.ReadFile(name))(t))
	}
	world.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	world.WriteAll(t, filepath.Join(dir, folder), all)
}

// fail2ban with the jails of the package, switched on as the page says, bans the addresses that guess and
// those that policies refuse, and no other, from a file and from the journal, of a container too.
func TestFail2banServer(t *testing.T) {
	t.Parallel()
	dir, want := offendedLog(t)
	log, journal, docker := dir+"/authgate.log", dir+"/authgate.journal", dir+"/docker.journal"
	writeJournal(t, journal, "_SYSTEMD_UNIT=authgate.service", world.ReadFile(t, log))
	writeJournal(t, docker, "_SYSTEMD_UNIT=docker.service\nCONTAINER_NAME=authgate", world.ReadFile(t, log))
	for from, backend := range map[string]string{
		"file":    "backend = auto\nlogpath = " + log,
		"journal": `backend = systemd[journalfiles="` + journal + `"]`,
		"container": world.Substituted(t, world.DocumentedFile(t, bansPage, "container.ini"),
			"/srv/authgate/data/audit.jsonl", dir+"/audit.jsonl"),
		"journal of a container": `backend = systemd[journalfiles="` + docker + `"]` +
			"\njournalmatch = CONTAINER_NAME=authgate",
	} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			runFail2banServer(t, backend, want)
		})
	}
}

// writeJournal writes a file of the journal that has the lines, each with the fields of their source.
func writeJournal(t *testing.T, name, source, lines string) {
	t.Helper()
	var export strings.Builder
	at := time.Now().UnixMicro() - int64(strings.Count(lines, "\n"))
	for line := range strings.Lines(lines) {
		at++
		fmt.Fprintf(&export, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%[1]d\n_BOOT_ID=%032d\n"+
			"%s\n_HOSTNAME=host\nSYSLOG_IDENTIFIER=authgate\n_PID=7\nMESSAGE=%s\n", at, 1, source, line)
	}
	cmd := exec.CommandContext(t.Context(), "/lib/systemd/systemd-journal-remote", "-o", name, "-")
	cmd.Stdin = strings.NewReader(export.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("systemd-journal-remote: %v\n%s", err, out)
	}
}

// runFail2banServer runs the jails with a backend until they have banned as many addresses as they are to.
func runFail2banServer(t *testing.T, backend string, want judged) {
	dir := t.TempDir()
	copyInto(t, dir, ".", "/etc/fail2ban/fail2ban.conf", "/etc/fail2ban/jail.conf", "/etc/fail2ban/paths-common.conf",
		"/etc/fail2ban/paths-debian.conf")
	copyInto(t, dir, "filter.d", world.Path(fail2banEtc+"/filter.d/authgate.conf"))
	copyInto(t, dir, "jail.d", world.Path(fail2banEtc+"/jail.d/authgate.conf"))
	local := strings.ReplaceAll(world.DocumentedFile(t, bansPage, "/etc/fail2ban/jail.d/authgate.local"),
		"enabled = true", "enabled = true\naction =\n"+backend)
	world.WriteAll(t, dir, map[string]string{"fail2ban.local": "[DEFAULT]\ndbfile = None\n",
		"jail.d/authgate.local": strings.Replace(local, " 192.0.2.0/24", "", 1)})
	arguments := []string{"-c", dir, "-s", dir + "/socket", "-p", dir + "/pid", "--logtarget", "stderr"}
	server := exec.Command(world.FindProgram(t, "fail2ban-server"), append(arguments, "-f", "start")...)
	said := &world.Output{}
	server.Stdout, server.Stderr = said, said
	world.Spawn(t, server)
	banned := func(jail string) []string {
		out, _ := exec.Command(world.FindProgram(t, "fail2ban-client"),
			append(arguments, "get", jail, "banip")...).Output() // fails until the jail runs
		all := strings.Fields(string(out))
		slices.Sort(all)
		return all
	}
	var got judged
	world.Eventually(t, world.Patience, "the last address of the log to be banned by each jail", func() error {
		got = judged{banned("authgate"), banned("authgate-denied")}
		if len(got.Guess) < len(want.Guess) || len(got.Denied) < len(want.Denied) {
			return fmt.Errorf("banned are %v, want %v", got, want)
		}
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("banned by fail2ban (-want +got):\n%s", diff)
	}
	if strings.Contains(said.String(), "without a timestamp") {
		t.Errorf("fail2ban does not read the time of each line:\n%s", said)
	}
}

// crowdsecConfig runs the agent and its local API in DIR, without the central API.
const crowdsecConfig = `
common: {daemonize: false, log_media: stdout, working_dir: .}
config_paths: {config_dir: DIR/etc, data_dir: DIR/data, simulation_path: /etc/crowdsec/simulation.yaml,
  hub_dir: HUB, index_path: HUB/.index.json, notification_dir: DIR/data, plugin_dir: DIR/data}
crowdsec_service: {acquisition_path: DIR/acquis.yaml, parser_routines: 1}
db_config: {type: sqlite, db_path: DIR/data/crowdsec.db, use_wal: true}
api:
  client: {credentials_path: DIR/credentials.yaml}
  server: {listen_uri: "ADDRESS", profiles_path: /etc/crowdsec/profiles.yaml}
prometheus: {enabled: false}
`

// CrowdSec with the parser and the scenarios of the package bans the addresses that guess and those that
// policies refuse, and no other, from a file and as the journal has the lines.
func TestCrowdSec(t *testing.T) {
	t.Parallel()
	dir, want := offendedLog(t)
	lines := world.ReadFile(t, dir+"/authgate.log")
	world.WriteAll(t, dir, map[string]string{
		"journal.log": regexp.MustCompile(`(?m)^\{`).ReplaceAllString(lines, "Jan  2 15:04:05 host authgate[7]: {")})
	for kind, log := range map[string]string{"authgate": dir + "/authgate.log", "syslog": dir + "/journal.log"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, runCrowdSec(t, kind, log)); diff != "" {
				t.Errorf("banned by CrowdSec (-want +got):\n%s", diff)
			}
		})
	}
}

// runCrowdSec lets CrowdSec read a log, whose lines are of a kind, and returns the addresses that it bans.
func runCrowdSec(t *testing.T, kind, log string) (got judged) {
	dir, address := t.TempDir(), world.FreeAddress(t)
	for folder, files := range map[string][]string{
		"parsers/s00-raw":    {crowdsecHub + "/parsers/s00-raw/crowdsecurity/syslog-logs.yaml"},
		"parsers/s01-parse":  {world.Path(crowdsecEtc + "/parsers/s01-parse/authgate-logs.yaml")},
		"parsers/s02-enrich": {crowdsecHub + "/parsers/s02-enrich/crowdsecurity/dateparse-enrich.yaml"},
		"scenarios": {world.Path(crowdsecEtc + "/scenarios/authgate-guessing.yaml"),
			world.Path(crowdsecEtc + "/scenarios/authgate-denied.yaml")},
		"patterns": world.Must(filepath.Glob("/etc/crowdsec/patterns/*"))(t),
	} {
		copyInto(t, filepath.Join(dir, "etc"), folder, files...)
	}
	copyInto(t, dir, "data")
	config := strings.NewReplacer("DIR", dir, "HUB", crowdsecHub, "ADDRESS", address).Replace(crowdsecConfig)
	world.WriteAll(t, dir, map[string]string{"acquis.yaml": "", "credentials.yaml": "", "config.yaml": config})
	run := func(program string, arguments ...string) string {
		cmd := exec.CommandContext(t.Context(), world.FindProgram(t, program),
			append([]string{"-c", dir + "/config.yaml"}, arguments...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		return string(out)
	}
	run("cscli", "machines", "add", "tester", "--password", "a-password-of-a-test",
		"-f", dir+"/credentials.yaml", "-u", "http://"+address)
	said := run("crowdsec", "-no-capi", "-type", kind, "-dsn", "file://"+log)
	bans := regexp.MustCompile(`authgate/(guessing|denied) by ip \S+ : \S+ ban on Ip ([0-9a-f.:]+)`)
	for _, ban := range bans.FindAllStringSubmatch(said, -1) {
		if ban[1] == "denied" {
			got.Denied = append(got.Denied, ban[2])
		} else {
			got.Guess = append(got.Guess, ban[2])
		}
	}
	slices.Sort(got.Guess)
	slices.Sort(got.Denied)
	got.Guess, got.Denied = slices.Compact(got.Guess), slices.Compact(got.Denied)
	if got.Guess == nil {
		t.Logf("CrowdSec: %s", said)
	}
	return got
}
