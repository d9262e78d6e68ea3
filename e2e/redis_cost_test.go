package e2e

import (
	"bufio"
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

// TestRedisCosts measures what requests cost Redis, and compares it with what
// docs/scaling.md says. It is not parallel, so that it measures little else.
func TestRedisCosts(t *testing.T) {
	p, _ := startDelegatedPair(t, patientRedis)
	t.Run("commands", func(t *testing.T) { redisCommands(t, p) })
	t.Run("work", func(t *testing.T) { redisWork(t, p) })
	t.Run("memory", func(t *testing.T) { redisMemory(t, p) })
}

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

// since counts the commands since the last call, as docs/scaling.md does. It leaves
// out what scripts do and what confirms contact.
func (l *commandLog) since(t testing.TB) string {
	t.Helper()
	end := "end of " + newRequestID()
	l.redis.Do(t, "ECHO", end)
	total, counts := 0, map[string]int{}
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
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
		if m[1] != "lua" && command != "ROLE" && command != "PING" && kind != "" {
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

// redisCommands counts the commands that each kind of request sends to Redis.
func redisCommands(t *testing.T, p *pair) {
	browser, sent := p.browser(t), watchRedis(t, p.redis)
	p.signIn("bob") // so that Redis knows the scripts, as far as there are any
	p.signInAtProvider(t, browser, p.a, p.a)
	browser = p.browser(t)

	got := map[string]string{}
	count := func(what string, do func()) {
		sent.since(t)
		do()
		got[what] = sent.since(t)
		t.Logf("%-26s %s", what, got[what])
	}
	ask := func(what string, g *instance, method, path string, credential ...string) {
		count(what, func() {
			if status := g.status(p.client(g), method, path, credential...); status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
		})
	}
	twice := func(what, path string, credential ...string) {
		ask(what+", cold", p.b, "GET", path, credential...)
		ask(what+", warm", p.b, "GET", path, credential...)
	}
	var first signIn
	var delegated string
	ask("public", p.a, "GET", "/open")
	ask("basic", p.a, "GET", "/basic-resource", "Authorization", basicService)
	count("login, session and tokens", func() { first = p.signIn("alice") })
	twice("session", "/secure-resource", "Cookie", first.session)
	other := p.signIn("alice")
	twice("token", "/secure-resource", "Authorization", other.access)
	count("refresh, cold", func() { p.wantRefresh(t, p.b, first.refresh, http.StatusOK) })
	ask("logout by session", p.b, "POST", "/logout", "Cookie", first.session)
	ask("logout by token", p.b, "POST", "/logout", "Authorization", other.access)
	count("delegated login", func() { delegated = p.signInAtProvider(t, browser, p.a, p.a) })
	twice("delegated session", "/delegated-resource", "Cookie", delegated)

	documented := map[string]string{}
	for what, row := range documentedCosts(t, "## What a request costs") {
		documented[what] = row[0] + ": " + row[1]
	}
	if diff := cmp.Diff(documented, got); diff != "" {
		t.Errorf("docs/scaling.md counts other commands (-) than there are (+):\n%s", diff)
	}
}

var costRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([0-9]+) \\| `?([^|`]*)`? \\|$")

// documentedCosts returns the rows of a table in docs/scaling.md.
func documentedCosts(t *testing.T, heading string) map[string][2]string {
	t.Helper()
	_, table, _ := strings.Cut(documents(t)["docs/scaling.md"].prose, heading+"\n")
	table, _, _ = strings.Cut(table, "\n##")
	all := map[string][2]string{}
	for _, row := range costRow.FindAllStringSubmatch(table, -1) {
		all[row[1]] = [2]string{row[2], row[3]}
	}
	return all
}

// redisWork measures the time that the processor spends in Redis on requests, and
// the bytes that they send to Redis and get from it. It fails if the bytes are
// others than documented, or if warm requests cost Redis much; not over the time.
func redisWork(t *testing.T, p *pair) {
	const logins, warmed, delegations = 500, 8 * 500, 20
	ask := func(method, path, header string, credential func(i int) string) func(int) (int, error) {
		client := p.client(p.b)
		return func(i int) (int, error) {
			a, err := p.b.try(client, method, path, "", header, credential(i))
			return a.status, err
		}
	}
	// Warm requests send nothing to Redis, so this is what it does anyway.
	s := p.signIn("bob")
	warm := ask("GET", "/secure-resource", "Cookie", func(int) string { return s.session })
	p.requests(t, 1, warm)
	anyway, lasted := p.requests(t, warmed, warm)
	perWarm := anyway.times(1. / warmed)
	anyway = anyway.times(1 / lasted)
	t.Logf("anyway, a second: %v", anyway)
	measure := func(n int, do func(i int) (int, error)) work {
		w, lasted := p.requests(t, n, do)
		return w.plus(anyway.times(-lasted)).times(1 / float64(n))
	}

	all, atA, atB := make([]signIn, logins), p.client(p.a), p.client(p.b)
	session := func(i int) string { return all[i].session }
	got := map[string]work{}
	got["login, session and tokens"] = measure(logins, func(i int) (status int, err error) {
		all[i], status, err = p.a.trySignIn(atA, fmt.Sprint("crowd-", i%crowdSize), passwords["alice"])
		return status, err
	})
	got["session, cold"] = measure(logins, ask("GET", "/secure-resource", "Cookie", session))
	got["token, cold, of a login that is warm"] = measure(logins, ask("GET", "/secure-resource", "Authorization", func(i int) string { return all[i].access }))
	got["refresh, cold"] = measure(logins, func(i int) (int, error) {
		_, status, err := p.b.tryRefresh(atB, all[i].refresh)
		return status, err
	})
	got["logout by session"] = measure(logins, ask("POST", "/logout", "Cookie", session))
	var login, cold work
	for range delegations {
		// Redis is empty for each, as the records of a person grow with their logins.
		p.redis.Do(t, "FLUSHALL")
		var delegated string
		c := p.browser(t)
		login = login.plus(measure(1, func(int) (int, error) {
			delegated = p.signInAtProvider(t, c, p.a, p.a)
			return http.StatusOK, nil
		}))
		cold = cold.plus(measure(1, ask("GET", "/delegated-resource", "Cookie", func(int) string { return delegated })))
	}
	got["delegated login"], got["delegated session, cold"] = login.times(1./delegations), cold.times(1./delegations)

	documented := documentedCosts(t, "### In bytes")
	for name, w := range got {
		t.Logf("%-36s %v", name, w)
		for i, said := range documented[name] {
			if want, err := strconv.ParseFloat(said, 64); err != nil || math.Abs(w[i+1]-want) > 10+want/20 {
				t.Errorf("docs/scaling.md counts on %v bytes for %s: %v, %v", documented[name], name, w, err)
			}
		}
		if _, there := documented[name]; !there {
			t.Errorf("docs/scaling.md does not have %s", name)
		}
	}
	if c := got["session, cold"]; perWarm[1] > c[1]/10 || perWarm[2] > c[2]/10 {
		t.Errorf("a warm request costs Redis %v, a cold one %v", perWarm, c)
	}
}

// work is the processor time of Redis in seconds, and the bytes that it got and sent.
type work [3]float64

func (w work) String() string {
	return fmt.Sprintf("%.0f µs, %.0f bytes in, %.0f out", w[0]*1e6, w[1], w[2])
}

func (w work) times(by float64) work { return work{w[0] * by, w[1] * by, w[2] * by} }

func (w work) plus(o work) work { return work{w[0] + o[0], w[1] + o[1], w[2] + o[2]} }

// requests has ten workers call do n times. Each status must be 200. It returns the
// work of Redis, without the work of measuring, and the seconds that it took.
func (p *pair) requests(t *testing.T, n int, do func(i int) (status int, err error)) (spent work, lasted float64) {
	t.Helper()
	read := func() work {
		told := redisTells(t, p.redis, "cpu", "stats")
		return work{told["used_cpu_user"] + told["used_cpu_sys"], told["total_net_input_bytes"], told["total_net_output_bytes"]}
	}
	first, began := read(), time.Now()
	before := read()
	workers := min(n, 10)
	many(workers, func(worker int) {
		for i := worker; i < n; i += workers {
			if status, err := do(i); err != nil || status != http.StatusOK {
				t.Errorf("%d, %v", status, err)
			}
		}
	})
	after, lasted := read(), time.Since(began).Seconds()
	return after.plus(first).plus(before.times(-2)), lasted
}

// redisMemory measures what Redis stores for a login, and for how long: the keys,
// and all memory that grows with them.
func redisMemory(t *testing.T, p *pair) {
	byJSON := func() signIn { return p.signIn("alice") }
	byForm := func() signIn {
		form := url.Values{"username": {"alice"}, "password": {passwords["alice"]}}.Encode()
		a := p.a.do(p.client(p.a), "POST", "/login", form, "Content-Type", typeForm, "Accept", "text/html")
		return signIn{session: "session_id=" + cookieNamed(t, a, "session_id").Value}
	}
	atProvider := func() signIn { return signIn{session: p.signInAtProvider(t, p.browser(t), p.a, p.a)} }
	byJSON() // which makes what exists once
	for what, login := range map[string]func() signIn{"at the provider": atProvider, "by JSON": byJSON, "by form": byForm} {
		p.redis.Do(t, "FLUSHALL")
		login()
		size, life := redisKeys(t, p.redis, "MEMORY", "USAGE"), redisKeys(t, p.redis, "TTL")
		t.Logf("a login %s: bytes %v, seconds %v", what, size, life)
		if long := life["login"] > life["session"]+60; long != (what == "by JSON") {
			t.Errorf("docs/scaling.md counts on another lifetime of a login %s: %v", what, life)
		}
		if what == "at the provider" {
			continue
		}
		const logins = 200
		memory := func() float64 { return redisTells(t, p.redis, "memory")["used_memory"] }
		all, empty := make([]signIn, logins), memory()
		for i := range all {
			all[i] = login()
		}
		full := memory()
		for _, s := range all {
			p.opens(t, p.a, "Cookie", s.session)
		}
		each, tracked := (full-empty)/logins, (memory()-full)/logins
		t.Logf("%d logins %s: %.0f bytes each in all, and %.0f more once read by one instance", logins, what, each, tracked)
		if each > 4096 || tracked > 4096 {
			t.Error("docs/scaling.md counts on far less")
		}
	}
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
