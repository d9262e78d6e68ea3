package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// auditConfig writes audit events to a file. A user who is no admin is denied, which leaves an event.
const auditConfig = world.People + `
store: {driver: memory}
log: {audit_file: log/audit.jsonl}
policies: {admin: {roles: [admin]}}
routes: [{match: /, upstream: app, auth: [session], policy: admin}]
`

// auditWitness is a gateway under load, whose clients note the events that they saw the effect of.
type auditWitness struct {
	*world.Instance
	files []string // moved away, the oldest first
	seen  []string // ids of requests that were answered, which each leave an event
}

// ask sends requests until one fails, because the gateway was killed. It sends the ids of those that
// are answered.
func (g *auditWitness) ask(bob string, answered chan<- string) {
	c := g.Stranger()
	for {
		a, err := g.Try(c, "GET", "/", "", "Cookie", bob)
		if err == nil && a.Status != http.StatusForbidden {
			g.T.Errorf("bob gets %d", a.Status)
		}
		if err == nil {
			answered <- a.Header.Get("X-Request-Id")
			a, err = g.Try(c, "POST", "/login", world.AliceJSON, "Content-Type", world.TypeJSON)
		}
		if err != nil {
			return
		}
		answered <- a.Header.Get("X-Request-Id")
	}
}

// round asks until a number of requests are answered, and kills the gateway at that moment. If moves is
// set, it moves the file away when half of them are.
func (g *auditWitness) round(answers int, moves bool) {
	bob := g.SignIn(g.Stranger(), "bob").Session
	answered := make(chan string)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() { g.ask(bob, answered) })
	}
	go func() {
		clients.Wait()
		close(answered)
	}()
	n := 0
	for id := range answered {
		g.seen = append(g.seen, id)
		switch n++; {
		case n == answers:
			g.Kill()
		case n == answers/2 && moves:
			g.move()
		}
	}
}

func (g *auditWitness) file() string { return filepath.Join(g.Dir, "data/log/audit.jsonl") }

// move moves the file away, as logrotate does.
func (g *auditWitness) move() {
	moved := g.file() + "." + strconv.Itoa(len(g.files)+1)
	world.NoError(g.T, os.Rename(g.file(), moved))
	g.files = append(g.files, moved)
}

// check verifies all files, in which nothing is lost, and looks for each request that was answered.
func (g *auditWitness) check() {
	g.T.Helper()
	files := append(g.files[:len(g.files):len(g.files)], g.file())
	args := append([]string{"audit", "verify", "--config", filepath.Join(g.Dir, "config.yaml")}, files...)
	out, err := exec.Command(world.Program("authgate"), args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "audit_lost: 0\n") || strings.Contains(string(out), "earlier one") {
		g.T.Fatalf("audit verify: %v\n%s", err, out)
	}
	var all []byte
	for _, file := range files {
		all = append(all, world.ReadFile(g.T, file)...)
	}
	for _, id := range g.seen {
		if id == "" || !bytes.Contains(all, []byte(`"request_id":"`+id+`"`)) {
			g.T.Fatalf("the request %q was answered, and its event is in no file", id)
		}
	}
	g.seen = nil
}

// TestAuditFileSurvivesKills kills the gateway with SIGKILL at random moments under load. Each time, all
// files verify, nothing is lost, and the event of each request that was answered is there; also if the
// file is moved away under load, or before the next start. AUDITKILLS is the number of rounds.
func TestAuditFileSurvivesKills(t *testing.T) {
	t.Parallel()
	g := &auditWitness{Instance: world.Prepare(t)}
	world.NoError(t, os.MkdirAll(filepath.Dir(g.file()), 0o700))
	g.Configure(auditConfig + world.App(world.Record(t).URL))
	rounds := world.Must(strconv.Atoi(cmp.Or(os.Getenv("AUDITKILLS"), "5")))(t)
	for round := range rounds {
		g.Run()
		g.check()
		g.round(1+rand.IntN(100), round%3 == 1)
		// Half a line stays until the start removes it.
		if content, err := os.ReadFile(g.file()); round%3 == 2 && err == nil && bytes.HasSuffix(content, []byte("\n")) {
			g.move()
		}
	}
	g.Run()
	g.check()
	fmt.Fprintln(t.Output(), rounds, "rounds")
}
