package redis

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// TestRedisCosts counts the commands that each kind of request sends to Redis, and
// compares them with docs/scaling.md. A warm request sends none. The test is not
// parallel, so that the gateways stay in contact with Redis and keep their caches.
func TestRedisCosts(t *testing.T) {
	p := startDelegatedPair(t, patientRedis)
	browser, sent := p.browser(t), watchRedis(t, p.redis)
	p.signIn("bob") // so that Redis knows the scripts, as far as there are any
	p.signInAtProvider(t, browser, p.a, p.a)
	browser = p.browser(t)

	got := map[string]string{}
	count := func(what string, do func()) {
		sent.since(t)
		do()
		got[what] = sent.since(t)
	}
	ask := func(what string, g *world.Instance, method, path string, credential ...string) {
		count(what, func() {
			if status := g.Status(p.client(g), method, path, credential...); status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
		})
	}
	twice := func(what, path string, credential ...string) {
		ask(what+", cold", p.b, "GET", path, credential...)
		ask(what+", warm", p.b, "GET", path, credential...)
	}
	var first world.Login
	var delegated string
	ask("public", p.a, "GET", "/open")
	ask("basic", p.a, "GET", "/basic-resource", "Authorization", world.BasicService)
	count("login, session and tokens", func() { first = p.signIn("alice") })
	twice("session", "/secure-resource", "Cookie", first.Session)
	other := p.signIn("alice")
	twice("token", "/secure-resource", "Authorization", other.Access)
	count("refresh, cold", func() { p.wantRefresh(t, p.b, first.Refresh, http.StatusOK) })
	ask("logout by session", p.b, "POST", "/logout", "Cookie", first.Session)
	ask("logout by token", p.b, "POST", "/logout", "Authorization", other.Access)
	count("delegated login", func() { delegated = p.signInAtProvider(t, browser, p.a, p.a) })
	twice("delegated session", "/delegated-resource", "Cookie", delegated)

	// A login that gives only a session is kept for as long as the session.
	p.redis.Do(t, "FLUSHALL")
	p.a.Do(p.client(p.a), "POST", "/login", url.Values{"username": {"alice"},
		"password": {world.Passwords["alice"]}}.Encode(), "Content-Type", world.TypeForm, "Accept", "text/html")
	const kept = `return tostring(redis.call('TTL', redis.call('KEYS', 'authgate:' .. ARGV[1] .. ':*')[1]))`
	for _, kind := range []string{"session", "login"} {
		if seconds := world.Must(strconv.Atoi(p.redis.Do(t, "EVAL", kept, "0", kind)))(t); seconds < 3600 || seconds > 3660 {
			t.Errorf("the %s is kept for %d seconds, expected an hour and a minute at most", kind, seconds)
		}
	}

	documented := map[string]string{}
	_, table, _ := strings.Cut(world.ReadDocument(t, "docs/scaling.md").Prose, "## What a request costs\n")
	table, _, _ = strings.Cut(table, "\n##")
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([0-9]+) \\| `?([^|`]*)`? \\|$").
		FindAllStringSubmatch(table, -1) {
		documented[row[1]] = row[2] + ": " + row[3]
	}
	if diff := cmp.Diff(documented, got); diff != "" {
		t.Errorf("docs/scaling.md counts other commands (-) than there are (+):\n%s", diff)
	}
}

// commandLog is the commands that gateways send to Redis, in order (MONITOR).
type commandLog struct {
	redis *redistest.Server
	in    *bufio.Reader
}

func watchRedis(t testing.TB, redis *redistest.Server) *commandLog {
	t.Helper()
	conn := world.Must(net.Dial("tcp", redis.Address))(t)
	t.Cleanup(func() { conn.Close() })
	world.NoError(t, conn.SetDeadline(time.Now().Add(world.Patience)))
	in := bufio.NewReader(conn)
	world.Must(redistest.Exchange(conn, in, "MONITOR"))(t)
	return &commandLog{redis, in}
}

// loggedCommand is a line of MONITOR: where it came from, the command, and
// its first two arguments.
var loggedCommand = regexp.MustCompile(`^\+[0-9.]+ \[[0-9]+ (\S+)\] "([^"]+)"(?: "([^"]*)")?` +
	`(?: "[^"]*" "authgate:([a-z]+):)?`)

// ownKinds are the kinds of keys that gateways read and write at times of their
// own: how accounts have changed, the key of the decoys, and the reports of each second.
var ownKinds = []string{"changes", "decoys", "count"}

// since counts the commands since the last call, as docs/scaling.md does. It leaves
// out what scripts do, what confirms contact, and ownKinds.
func (l *commandLog) since(t testing.TB) string {
	t.Helper()
	end := "end of " + world.NewRequestID()
	l.redis.Do(t, "ECHO", end)
	total, counts := 0, map[string]int{}
	for {
		line := world.Must(l.in.ReadString('\n'))(t)
		m := loggedCommand.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("MONITOR says %q", line)
		}
		command := strings.ToUpper(m[2])
		if command == "ECHO" && m[3] == end {
			break
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(m[3], "authgate:"), ":")
		if command == "EVALSHA" || command == "EVAL" {
			kind = m[4] // empty: it asks for the time
		}
		if m[1] != "lua" && command != "ROLE" && command != "PING" && kind != "" && !slices.Contains(ownKinds, kind) {
			total++
			counts[command+" "+kind]++
		}
	}
	parts := []string{"none"}
	for i, command := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts[:i], fmt.Sprintf("%d %s", counts[command], command))
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

// redisTells returns all numbers of sections of INFO.
func redisTells(t testing.TB, r *redistest.Server, sections ...string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(r.Do(t, append([]string{"INFO"}, sections...)...)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = number
		}
	}
	return all
}
