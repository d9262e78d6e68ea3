package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// commandLog is the commands that gateways send to Redis, in order (MONITOR).
type commandLog struct {
	redis *redisServer
	in    *bufio.Reader
}

func watchRedis(t testing.TB, redis *redisServer) *commandLog {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if _, err := redisExchange(conn, in, "MONITOR"); err != nil {
		t.Fatal(err)
	}
	return &commandLog{redis, in}
}

// loggedCommand is a line of MONITOR: where it came from, the command, and
// its first two arguments.
var loggedCommand = regexp.MustCompile(`^\+[0-9.]+ \[[0-9]+ (\S+)\] "([^"]+)"(?: "([^"]*)")?(?: "[^"]*" "authgate:([a-z]+):)?`)

// since returns the commands since the last call, sorted, as COMMAND KIND of key.
// It leaves out what scripts do and what confirms contact.
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
		case m[1] == "lua", command == "ROLE", command == "PING": // of scripts, and of an instance that confirms contact
		case (command == "EVALSHA" || command == "EVAL") && m[4] == "": // asks for the time
		case command == "EVALSHA", command == "EVAL":
			all = append(all, command+" "+m[4])
		default:
			kind, _, _ := strings.Cut(strings.TrimPrefix(m[3], "authgate:"), ":")
			all = append(all, command+" "+kind)
		}
	}
}

// TestRedisCosts measures what requests cost Redis, and compares it with what
// docs/scaling.md says. It is not parallel, so that it measures little else.
func TestRedisCosts(t *testing.T) {
	p, _ := startDelegatedPair(t, patientRedis)
	t.Run("commands", func(t *testing.T) { redisCommands(t, p) })
	t.Run("work", func(t *testing.T) { redisWork(t, p) })
	t.Run("memory", func(t *testing.T) { redisMemory(t, p) })
}

// redisCommands counts the commands that each kind of request sends to Redis.
func redisCommands(t *testing.T, p *pair) {
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

// documentedCosts returns the rows of the table of commands in docs/scaling.md.
func documentedCosts(t *testing.T) map[string]string {
	t.Helper()
	_, table, _ := strings.Cut(documents(t)["docs/scaling.md"].prose, "## What a request costs")
	table, _, _ = strings.Cut(table, "\n### ")
	all := map[string]string{}
	for _, row := range costRow.FindAllStringSubmatch(table, -1) {
		all[row[1]] = row[2] + ": " + row[3]
	}
	return all
}

// redisMemory measures what Redis stores for a login, and for how long: the keys,
// and all memory that grows with them.
func redisMemory(t *testing.T, p *pair) {
	atA := p.a.stranger()
	byJSON := func() signIn { return p.a.signIn(atA, "alice") }
	byPage := func() signIn {
		form := url.Values{"username": {"alice"}, "password": {passwords["alice"]}}.Encode()
		a := p.a.do(atA, "POST", "/login", form, "Content-Type", typeForm, "Accept", "text/html")
		if a.status != http.StatusSeeOther || sessionOnPage(a) == "" {
			t.Fatalf("login by form: %d %s", a.status, a.body)
		}
		return signIn{session: sessionOnPage(a)}
	}
	byJSON() // which makes what exists once
	for what, login := range map[string]func(){
		"at the provider": func() { p.signInAtProvider(t, p.browser(t), p.a, p.a) },
		"by JSON":         func() { byJSON() },
		"by form":         func() { byPage() },
	} {
		p.redis.Do(t, "FLUSHALL")
		login()
		size, life := redisKeys(t, p.redis, "MEMORY", "USAGE"), redisKeys(t, p.redis, "TTL")
		t.Logf("a login %s: bytes %v, seconds %v", what, size, life)
		if long := life["login"] > life["session"]+60; long != (what == "by JSON") {
			t.Errorf("docs/scaling.md counts on another lifetime of a login %s: %v", what, life)
		}
	}
	for what, login := range map[string]func() signIn{"by JSON": byJSON, "by form": byPage} {
		const logins = 200
		p.redis.Do(t, "FLUSHALL")
		all, empty := make([]signIn, logins), redisInfo(t, p.redis, "memory", "used_memory")
		for i := range all {
			all[i] = login()
		}
		full := redisInfo(t, p.redis, "memory", "used_memory")
		for _, s := range all {
			p.opens(t, p.a, "Cookie", s.session)
		}
		read := redisInfo(t, p.redis, "memory", "used_memory")
		each, tracked := (full-empty)/logins, (read-full)/logins
		t.Logf("%d logins %s: %.0f bytes each in all, and %.0f more once read by one instance", logins, what, each, tracked)
		if each > 4096 || tracked > 4096 {
			t.Error("docs/scaling.md counts on far less")
		}
	}
}

// sessionOnPage returns the session that the sign-in page gives, as a Cookie
// header.
func sessionOnPage(a answer) string {
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Name == "session_id" && cookie.Value != "" {
			return "session_id=" + cookie.Value
		}
	}
	return ""
}

// redisKeys returns the sum of the replies to a command for each kind of key.
func redisKeys(t testing.TB, r *redisServer, command ...string) map[string]int {
	t.Helper()
	all := map[string]int{}
	script := `local all = '' for _, k in ipairs(redis.call('KEYS', '*')) do
		local words = {unpack(ARGV)} table.insert(words, k) all = all .. k .. ' ' .. redis.call(unpack(words)) .. '\n' end return all`
	for line := range strings.Lines(r.Do(t, append([]string{"EVAL", script, "0"}, command...)...)) {
		key, told, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.Atoi(told)
		if err != nil {
			t.Fatalf("redis: %q: %v", line, err)
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, "authgate:"), ":")
		all[kind] += number
	}
	return all
}

// redisInfo returns a number from INFO.
func redisInfo(t testing.TB, r *redisServer, section, name string) float64 {
	t.Helper()
	return redisTells(t, r, section)[name]
}

// redisTells returns all numbers of sections of INFO.
func redisTells(t testing.TB, r *redisServer, sections ...string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(r.Do(t, append([]string{"INFO"}, sections...)...)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = number
		}
	}
	if len(all) == 0 {
		t.Fatalf("redis tells nothing of %v", sections)
	}
	return all
}

// redisWork measures the time that the processor spends in Redis on requests, and
// the bytes that they send to Redis and get from it. It fails if the bytes are
// others than documented, or if warm requests cost Redis much; not over the time.
func redisWork(t *testing.T, p *pair) {
	const logins, warmed = 500, 8 * 500
	atA, atB := p.a.stranger(), p.b.stranger()
	all := make([]signIn, logins)
	login := p.requests(t, logins, func(i int) (status int, err error) {
		all[i], status, err = p.a.trySignIn(atA, fmt.Sprint("crowd-", i%crowdSize), passwords["alice"])
		return status, err
	})
	ask := func(path, header string, credential func(i int) string) func(int) (int, error) {
		return func(i int) (int, error) {
			a, err := p.b.try(atB, "GET", path, "", header, credential(i))
			return a.status, err
		}
	}
	bySession := ask("/secure-resource", "Cookie", func(i int) string { return all[i%logins].session })
	session := p.requests(t, logins, bySession)
	token := p.requests(t, logins, ask("/secure-resource", "Authorization", func(i int) string { return all[i].access }))
	warm := p.requests(t, warmed, bySession)
	refresh := p.requests(t, logins, func(i int) (int, error) {
		_, status, err := p.b.tryRefresh(atB, all[i].refresh)
		return status, err
	})
	logout := p.requests(t, logins, func(i int) (int, error) {
		a, err := p.b.try(atB, "POST", "/logout", "", "Cookie", all[i].session)
		return a.status, err
	})
	delegatedLogin, delegated := p.delegatedWork(t, ask)

	// Warm requests send nothing to Redis, so this is what it does anyway.
	anyway := warm.over(warm.lasted)
	t.Logf("anyway, a second: %v", anyway)
	documented := documentedTraffic(t)
	for name, w := range map[string]work{
		"login, session and tokens": login, "session, cold": session, "token, cold, of a login that is warm": token, "refresh, cold": refresh,
		"logout by session": logout, "delegated login": delegatedLogin, "delegated session, cold": delegated,
	} {
		w = w.beside(anyway).over(w.n)
		t.Logf("%-36s %v", name, w)
		if want := documented[name]; math.Abs(w.in-want[0]) > 10+want[0]/20 || math.Abs(w.out-want[1]) > 10+want[1]/20 {
			t.Errorf("docs/scaling.md counts on %v bytes for %s", want, name)
		}
	}
	if w, c := warm.over(warm.n), session.over(session.n); w.in > c.in/10 || w.out > c.out/10 {
		t.Errorf("a warm request costs Redis %v, a cold one %v", w, c)
	}
}

// documentedTraffic returns the rows of the table of bytes in docs/scaling.md: to
// Redis and from it.
func documentedTraffic(t *testing.T) map[string][2]float64 {
	t.Helper()
	_, table, _ := strings.Cut(documents(t)["docs/scaling.md"].prose, "### In bytes")
	table, _, _ = strings.Cut(table, "\n## ")
	all := map[string][2]float64{}
	for _, row := range costRow.FindAllStringSubmatch(table, -1) {
		in, err1 := strconv.ParseFloat(row[2], 64)
		out, err2 := strconv.ParseFloat(row[3], 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		all[row[1]] = [2]float64{in, out}
	}
	return all
}

// delegatedWork returns the work for logins at a provider and for a cold request
// with each. Redis is empty for each of them, as the records of a person grow with
// their logins.
func (p *pair) delegatedWork(t *testing.T, ask func(path, header string, credential func(int) string) func(int) (int, error)) (login, cold work) {
	t.Helper()
	for range 20 {
		var session string
		c := p.browser(t)
		login = login.plus(p.during(t, 1, func() { session = p.signInAtProvider(t, c, p.a, p.a) }))
		cold = cold.plus(p.requests(t, 1, ask("/delegated-resource", "Cookie", func(int) string { return session })))
		p.redis.Do(t, "FLUSHALL")
	}
	return login, cold
}

// work is the processor time of Redis in seconds, the bytes that it got and sent,
// and how long that took, for n requests.
type work struct{ busy, in, out, lasted, n float64 }

func (w work) String() string {
	return fmt.Sprintf("%.0f µs, %.0f bytes in, %.0f out", w.busy*1e6, w.in, w.out)
}

// over returns the work divided by a number.
func (w work) over(by float64) work {
	return work{w.busy / by, w.in / by, w.out / by, w.lasted / by, w.n}
}

func (w work) plus(o work) work {
	return work{w.busy + o.busy, w.in + o.in, w.out + o.out, w.lasted + o.lasted, w.n + o.n}
}

// beside returns the work without what happens anyway in a second.
func (w work) beside(anyway work) work {
	w.busy, w.in, w.out = w.busy-anyway.busy*w.lasted, w.in-anyway.in*w.lasted, w.out-anyway.out*w.lasted
	return w
}

// requests has ten workers call do n times. Each status must be 200.
func (p *pair) requests(t *testing.T, n int, do func(i int) (status int, err error)) work {
	t.Helper()
	const workers = 10
	return p.during(t, n, func() {
		many(workers, func(worker int) {
			for i := worker; i < n; i += workers {
				if status, err := do(i); err != nil || status != http.StatusOK {
					t.Errorf("%d, %v", status, err)
				}
			}
		})
	})
}

// during returns the work of Redis while do makes n requests, without the work of
// measuring.
func (p *pair) during(t *testing.T, n int, do func()) work {
	t.Helper()
	first, began := redisTells(t, p.redis, "cpu", "stats"), time.Now()
	before := redisTells(t, p.redis, "cpu", "stats")
	do()
	after, lasted := redisTells(t, p.redis, "cpu", "stats"), time.Since(began).Seconds()
	passed := func(name string) float64 { return after[name] - before[name] - (before[name] - first[name]) }
	return work{
		passed("used_cpu_user") + passed("used_cpu_sys"), passed("total_net_input_bytes"), passed("total_net_output_bytes"), lasted, float64(n),
	}
}
