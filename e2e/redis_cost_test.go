package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store/redisstore/redistest"
)

// commandLog is what gateways ask of Redis, in order (MONITOR).
type commandLog struct {
	redis *redistest.Server
	in    *bufio.Reader
}

func watchRedis(t testing.TB, redis *redistest.Server) *commandLog {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if _, err := redistest.Exchange(conn, in, "MONITOR"); err != nil {
		t.Fatal(err)
	}
	return &commandLog{redis, in}
}

// loggedCommand is a line of MONITOR: where it came from, the command, and
// its first two arguments.
var loggedCommand = regexp.MustCompile(`^\+[0-9.]+ \[[0-9]+ (\S+)\] "([^"]+)"(?: "([^"]*)")?(?: "[^"]*" "authgate:([a-z]+):)?`)

// since returns the commands that came since it was asked last, as COMMAND KIND
// of key, sorted. What a script does, and what confirms contact, does not count.
func (l *commandLog) since(t testing.TB) []string {
	t.Helper()
	end := "end of " + newRequestID()
	l.redis.Do(t, "ECHO", end)
	var all []string
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		m := loggedCommand.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("MONITOR says %q", line)
		}
		switch command := strings.ToUpper(m[2]); {
		case command == "ECHO" && m[3] == end:
			slices.Sort(all)
			return all
		case m[1] == "lua", command == "ROLE":
		case command == "EVALSHA", command == "EVAL":
			all = append(all, command+" "+m[4])
		default:
			kind, _, _ := strings.Cut(strings.TrimPrefix(m[3], "authgate:"), ":")
			all = append(all, command+" "+kind)
		}
	}
}

// TestRedisCommands counts what each kind of request asks of Redis. The table
// in docs/scaling.md says the same.
func TestRedisCommands(t *testing.T) {
	t.Parallel()
	p, _ := startDelegatedPair(t)
	atA, atB, browser := p.a.stranger(), p.b.stranger(), p.browser(t)
	sent := watchRedis(t, p.redis)
	p.a.signIn(atA, "bob") // so that Redis knows the scripts, as far as there are any
	p.signInAtProvider(t, browser, p.a, p.a)
	browser = p.browser(t)
	sent.since(t)

	got := map[string]string{}
	note := func(what string) {
		var counted []string
		all := sent.since(t)
		for _, command := range slices.Compact(slices.Clone(all)) {
			n := 0
			for _, each := range all {
				if each == command {
					n++
				}
			}
			counted = append(counted, fmt.Sprintf("%d %s", n, command))
		}
		got[what] = fmt.Sprintf("%d: %s", len(all), strings.Join(counted, ", "))
		if len(all) == 0 {
			got[what] = "0: none"
		}
	}
	ask := func(g *instance, c *http.Client, path string, credential ...string) {
		if status := g.status(c, "GET", path, credential...); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	ask(p.a, atA, "/open")
	note("public")
	ask(p.a, atA, "/basic-resource", "Authorization", basicService)
	note("basic")
	first := p.a.signIn(atA, "alice")
	note("login, session and tokens")
	for _, way := range []string{"cold", "warm"} {
		ask(p.b, atB, "/secure-resource", "Cookie", first.session)
		note("session, " + way)
	}
	other := p.a.signIn(atA, "alice")
	sent.since(t)
	for _, way := range []string{"cold", "warm"} {
		ask(p.b, atB, "/secure-resource", "Authorization", other.access)
		note("token, " + way)
	}
	if _, status, err := p.b.tryRefresh(atB, first.refresh); err != nil || status != http.StatusOK {
		t.Errorf("refresh: %d, %v", status, err)
	}
	note("refresh, cold")
	if status := p.b.status(atB, "POST", "/logout", "Cookie", first.session); status != http.StatusOK {
		t.Errorf("logout: %d", status)
	}
	note("logout by session")
	if status := p.b.status(atB, "POST", "/logout", "Authorization", other.access); status != http.StatusOK {
		t.Errorf("logout: %d", status)
	}
	note("logout by token")
	delegated := p.signInAtProvider(t, browser, p.a, p.a)
	note("delegated login")
	for _, way := range []string{"cold", "warm"} {
		ask(p.b, atB, "/delegated-resource", "Cookie", delegated)
		note("delegated session, " + way)
	}
	for _, what := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%-26s %s", what, got[what])
	}
	if diff := cmp.Diff(documentedCosts(t), got); diff != "" {
		t.Errorf("docs/scaling.md counts other commands (-) than there are (+):\n%s", diff)
	}
}

var costRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([0-9]+) \\| `?([^|`]*)`? \\|$")

// documentedCosts are the rows of the table of commands in docs/scaling.md.
func documentedCosts(t *testing.T) map[string]string {
	t.Helper()
	_, table, _ := strings.Cut(documents(t)["docs/scaling.md"].prose, "## What a request costs")
	table, _, _ = strings.Cut(table, "\n## ")
	all := map[string]string{}
	for _, row := range costRow.FindAllStringSubmatch(table, -1) {
		all[row[1]] = row[2] + ": " + row[3]
	}
	return all
}

// TestRedisMemory measures what Redis keeps for a login: the keys by
// themselves, and all that grows with them.
func TestRedisMemory(t *testing.T) {
	t.Parallel()
	p, _ := startDelegatedPair(t)
	atA := p.a.stranger()
	p.a.signIn(atA, "alice")
	p.redis.Do(t, "FLUSHALL")
	p.signInAtProvider(t, p.browser(t), p.a, p.a)
	t.Logf("a delegated login: %v", redisMemory(t, p.redis))
	p.redis.Do(t, "FLUSHALL")
	p.a.signIn(atA, "alice")
	t.Logf("a session with tokens: %v", redisMemory(t, p.redis))

	const logins = 200
	all, empty := make([]signIn, logins), redisInfo(t, p.redis, "memory", "used_memory")
	for i := range all {
		all[i] = p.a.signIn(atA, "alice")
	}
	full := redisInfo(t, p.redis, "memory", "used_memory")
	for _, s := range all {
		p.opens(t, p.a, atA, "Cookie", s.session)
	}
	read := redisInfo(t, p.redis, "memory", "used_memory")
	each, tracked := (full-empty)/logins, (read-full)/logins
	t.Logf("%d sessions with tokens: %.0f bytes each in all, and %.0f more once read by one instance", logins, each, tracked)
	if each > 4096 || tracked > 4096 {
		t.Error("docs/scaling.md counts on far less")
	}
}

// memory is what each key takes, by its kind.
func redisMemory(t testing.TB, r *redistest.Server) map[string]int {
	t.Helper()
	all := map[string]int{}
	script := `local all = '' for _, k in ipairs(redis.call('KEYS', '*')) do all = all .. k .. ' ' .. redis.call('MEMORY', 'USAGE', k) .. '\n' end return all`
	for line := range strings.Lines(r.Do(t, "EVAL", script, "0")) {
		key, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		bytes, err := strconv.Atoi(size)
		if err != nil {
			t.Fatalf("redis: %q: %v", line, err)
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, "authgate:"), ":")
		all[kind] += bytes
	}
	return all
}

// info is a number that Redis tells of itself.
func redisInfo(t testing.TB, r *redistest.Server, section, name string) float64 {
	t.Helper()
	for line := range strings.Lines(r.Do(t, "INFO", section)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("redis tells no %s", name)
	return 0
}

// TestRedisWork measures, for the numbers in docs/scaling.md, the time that
// the processor of Redis spends on requests. It is no test of speed: it fails
// only if warm requests cost Redis anything to speak of.
func TestRedisWork(t *testing.T) {
	p := startPair(t, startRedis(t), "")
	const logins = 500
	atA, atB := p.a.stranger(), p.b.stranger()
	all := make([]signIn, logins)
	began := redisWork(t, p.redis)
	login := p.each(t, logins, func(i int) (status int, err error) {
		all[i], status, err = p.a.trySignIn(atA, "alice", passwords["alice"])
		return status, err
	})
	use := func(i int) (int, error) {
		a, err := p.b.try(atB, "GET", "/secure-resource", "", "Cookie", all[i%logins].session)
		return a.status, err
	}
	cold := p.each(t, logins, use)
	warm := p.each(t, 8*logins, use)
	refresh := p.each(t, logins, func(i int) (int, error) {
		_, status, err := p.b.tryRefresh(atB, all[i].refresh)
		return status, err
	})
	logout := p.each(t, logins, func(i int) (int, error) {
		a, err := p.b.try(atB, "POST", "/logout", "", "Cookie", all[i].session)
		return a.status, err
	})
	t.Logf("Redis was busy for %.3f s of %.1f s", redisWork(t, p.redis).busy-began.busy, redisWork(t, p.redis).at.Sub(began.at).Seconds())

	// What Redis does anyway is measured while requests ask nothing of it.
	anyway := warm.busy / warm.lasted
	t.Logf("anyway    %.2f ms a second", anyway*1e3)
	for name, w := range map[string]work{"login": login, "cold": cold, "refresh": refresh, "logout": logout} {
		t.Logf("%-9s %.0f µs each", name, (w.busy-anyway*w.lasted)/logins*1e6)
	}
	if each := cold.busy / logins; warm.busy/(8*logins) > each {
		t.Errorf("a warm request keeps Redis busy for %.1f µs, a cold one for %.1f µs", warm.busy/(8*logins)*1e6, each*1e6)
	}
}

// work is for how long, in seconds, the processor was busy with Redis, and how
// long that lasted.
type work struct{ busy, lasted float64 }

// each has ten workers do something n times, all of which must be 200.
func (p *pair) each(t *testing.T, n int, do func(i int) (status int, err error)) work {
	t.Helper()
	const workers = 10
	before := redisWork(t, p.redis)
	many(workers, func(worker int) {
		for i := worker; i < n; i += workers {
			if status, err := do(i); err != nil || status != http.StatusOK {
				t.Errorf("%d, %v", status, err)
			}
		}
	})
	after := redisWork(t, p.redis)
	return work{after.busy - before.busy, after.at.Sub(before.at).Seconds()}
}

// worked is for how long the processor has been busy with Redis until then.
type worked struct {
	busy float64
	at   time.Time
}

func redisWork(t testing.TB, r *redistest.Server) worked {
	t.Helper()
	return worked{redisInfo(t, r, "cpu", "used_cpu_user") + redisInfo(t, r, "cpu", "used_cpu_sys"), time.Now()}
}
