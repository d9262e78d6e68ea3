package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// The documents are code: what they show is run. The word or words after the
// opening ``` of a block say what it is.
//
//	console          what one types after "$ " and what is then printed. Each
//	                 document is one shell in one folder, beside the
//	                 demonstration on the shipped config.yaml. A line that ends
//	                 in \ goes on in the next. The files of the document are
//	                 in the folder, and the log is in authgate.log. Three pages
//	                 have no demonstration, see tutorial_test.go.
//	yaml             a whole configuration
//	yaml fragment    a part of one; it is put into the base
//	yaml base        the base of this document; without it, fragmentBase
//	yaml tests       tests of the fragment before it, as of authgate test
//	LANG NAME.EXT    the file NAME.EXT, which configurations and commands of
//	                 the same document name
//	diagram          a drawing
//	sh               what is not run; targets of the Makefile must exist
//
// "…" matches any text within a line, and alone on a line for any lines.
// Password hashes that end in it are completed.

// command is what one types, and what is printed then.
type command struct {
	line           int // of its block
	text, expected string
}

// typed matches a command, whose lines go on after \, and what is printed.
var typed = regexp.MustCompile(`(?s)^((?:[^\n]*\\\n)*[^\n]*)\n(.*)$`)

// commandsOf are those of the document's console blocks.
func commandsOf(t *testing.T, d *world.Document) []command {
	t.Helper()
	var all []command
	for _, b := range d.Blocks {
		if b.Info != "console" {
			continue
		}
		parts := strings.Split("\n"+b.Text(), "\n$ ")
		if parts[0] != "" {
			t.Fatalf("%s:%d: a console block begins with a command after \"$ \"", d.Name, b.Line)
		}
		for _, part := range parts[1:] {
			found := typed.FindStringSubmatch(part + "\n")
			all = append(all, command{b.Line, found[1], found[2]})
		}
	}
	return all
}

func TestDocsConsole(t *testing.T) {
	t.Parallel()
	docs := world.Documents(t)
	for name, doc := range docs {
		commands := commandsOf(t, doc)
		if len(commands) == 0 || slices.Contains([]string{tutorialPage, secondFactorPage, householdPage}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			demo := startDemo(t)
			demo.write(doc)
			shell := &docShell{t: t, dir: demo.dir, place: demo.place}
			shell.check(doc, commands)
			_ = demo.cmd.Process.Signal(syscall.SIGINT) // as Ctrl-C does; the exit status tells
			if <-demo.done; !demo.cmd.ProcessState.Success() {
				t.Errorf("the demonstration does not stop cleanly: %v\n%s", demo.cmd.ProcessState, demo.log)
			}
			checkLog(t, docs[observabilityPage], demo.log.String())
		})
	}
	if len(commandsOf(t, docs["README.md"])) == 0 {
		t.Error("README.md shows no command")
	}
}

// demonstration is what `make run` starts, on ports of its own.
type demonstration struct {
	t     *testing.T
	dir   string
	ports map[string]string // by the port in config.yaml
	log   *world.Output
	cmd   *exec.Cmd
	done  <-chan struct{}
}

func startDemo(t *testing.T) *demonstration {
	t.Helper()
	d := &demonstration{t: t, dir: t.TempDir(), ports: map[string]string{}, log: &world.Output{}}
	for _, port := range []string{"8443", "8080", "9090", "9000", "9443"} {
		d.ports[port] = world.FreePort(t)
	}
	world.WriteAll(t, d.dir, map[string]string{
		"config.yaml":   d.place(world.ReadFile(t, world.Path("config.yaml"))),
		"provider.yaml": d.place(world.ReadFile(t, world.Path("provider.yaml"))),
		".curlrc":       "silent\nshow-error\n", // as at a terminal: no progress meter
	})
	d.cmd = exec.Command(world.Program("demo"))
	file := world.Must(os.Create(filepath.Join(d.dir, "authgate.log")))(t) // as with 2>authgate.log
	d.cmd.Dir, d.cmd.Stderr = d.dir, io.MultiWriter(d.log, file)
	d.done = world.Spawn(t, d.cmd)
	if err := world.Await("http://127.0.0.1:"+d.ports["9090"]+"/readyz", d.done); err != nil {
		t.Fatalf("the demonstration does not get ready: %v\n%s", err, d.log)
	}
	return d
}

// write puts the files that a document shows into the folder of its shell.
func (d *demonstration) write(doc *world.Document) {
	files := map[string]string{}
	for _, b := range doc.Blocks {
		if name, ok := b.File(); ok && filepath.IsLocal(name) && name == filepath.Base(name) {
			files[name] = complete(d.place(b.Text()))
		}
	}
	delete(files, "config.yaml") // those of the demonstration
	delete(files, "provider.yaml")
	world.WriteAll(d.t, d.dir, files)
}

var shippedPort = regexp.MustCompile(`(:|%3A)(8443|8080|9090|9000|9443)\b`) // %3A: a colon in a query

// place puts the ports of this demonstration where text has the shipped ones.
func (d *demonstration) place(text string) string {
	return shippedPort.ReplaceAllStringFunc(text, func(found string) string {
		colon := len(found) - 4
		return found[:colon] + d.ports[found[colon:]]
	})
}

// checkLog checks that observabilityPage has each field of the access log and of each
// audit event, and that no password of the demonstration is in the log.
func checkLog(t *testing.T, page *world.Document, log string) {
	t.Helper()
	access, events := map[string]bool{"time": true, "level": true, "msg": true}, map[string]map[string]bool{}
	for _, row := range tableOf(t, page, "Log") {
		maps.Copy(access, spans(row[0]))
	}
	for _, row := range tableOf(t, page, "Audit events") {
		fields := fieldsOf(page, row)
		maps.Copy(fields, map[string]bool{"time": true, "level": true})
		events[strings.Trim(row[0], "`")] = fields
	}
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] != "request" && entry["msg"] != "audit" {
			continue
		}
		known := access
		if entry["msg"] == "audit" {
			known = events[fmt.Sprint(entry["event"])]
		}
		for field := range entry {
			if !known[field] {
				t.Errorf("%s: the table does not have the field %s of the log line %s", page.Name, field, line)
			}
		}
	}
	for _, password := range []string{"wonderland", "builder", "s3rvice", "guess"} {
		if strings.Contains(log, password) {
			t.Errorf("the password %s is in the log:\n%s", password, log)
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// spans returns everything in backquotes.
func spans(text string) map[string]bool {
	found := map[string]bool{}
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		found[span[1]] = true
	}
	return found
}

// fragmentBase is what a fragment of a configuration is put into.
const fragmentBase = `
accounts:
  users:
    - {username: alice, password_hash: "$2y$10$…"}
    - {username: bob, password_hash: "$2y$10$…", roles: [staff, admin]}
basic: {users: [{username: service, password_hash: "$2y$10$…"}]}
upstreams: {app: {url: "http://127.0.0.1:3000"}}
policies: {staff: {roles: [staff]}, admin: {roles: [admin]}}
providers: [{name: company, issuer: "https://id.example.net", client_id: authgate}]
token: {trusted_issuers: [{issuer: "https://tokens.example.net", audience: [app], introspection: {client_id: authgate}}]}
routes: [{match: /, upstream: app, auth: [session]}]
webhooks: [{name: ops, url: "https://ops.example.net", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]
oauth:
  clients:
    - {id: app, redirect_uris: ["https://app.example.org/callback"]}
    - {id: wiki, redirect_uris: ["https://wiki.example.org/callback"]}
`

// documentBase is what a fragment of this document is put into.
func documentBase(doc *world.Document) string {
	for _, b := range doc.Blocks {
		if b.Info == "yaml base" {
			return b.Text()
		}
	}
	return fragmentBase
}

// complete writes password hashes out that a document cuts short, and names a file of the test for one of pods.
func complete(text string) string {
	return strings.NewReplacer(
		"$argon2id$v=19$m=19456,t=2,p=1$…", "$argon2id$v=19$m=19456,t=2,p=1$"+
			"bm90IGEgcmVhbCBzYWx0$bm90IHRoZSBoYXNoIG9mIGEgcGFzc3dvcmQ",
		"$2y$10$…", "$2y$10$"+strings.Repeat("a", 53),
		"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "roots.pem",
	).Replace(text)
}

func TestDocsConfigurations(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, doc := range world.Documents(t) {
		dir := configurationFolder(t, doc)
		for _, b := range doc.Blocks {
			var content string
			switch _, file := b.File(); {
			case b.Info == "yaml", b.Info == "yaml base":
				content = complete(b.Text())
			case b.Info == "yaml tests":
				continue // see TestDocsCookbook
			case b.Info == "yaml fragment":
				whole := world.DecodeYAML(t, complete(documentBase(doc)))
				merge(whole, world.DecodeYAML(t, complete(b.Text())))
				content = encodeYAML(t, whole)
			case !file && b.Info != "console" && b.Info != "sh" && b.Info != "diagram":
				t.Errorf("%s:%d: a block of %q is not known", name, b.Line, b.Info)
				continue
			default:
				continue
			}
			checked++
			if out, err := validate(t, dir, content); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.Line, err, out)
			}
		}
	}
	if checked == 0 {
		t.Error("no document shows a configuration")
	}
}

// configurationFolder holds the files that configurations of doc name.
func configurationFolder(t *testing.T, doc *world.Document) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"alice.hash":    complete("$2y$10$…\n"),
		"phone.secret":  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
		"chat.secret":   "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
		"accounts.yaml": complete("- {username: alice, password_hash: \"$2y$10$…\"}\n"),
	}
	for name, from := range map[string]string{
		"cert.pem": "tls-certificate.pem", "key.pem": "tls-key.pem", "roots.pem": "tls-certificate.pem",
	} {
		files[name] = world.ReadFile(t, world.Path("gateway/config/testdata/files/"+from))
	}
	for _, b := range doc.Blocks {
		if name, ok := b.File(); ok && name == filepath.Base(name) {
			files[name] = complete(b.Text())
		}
	}
	world.WriteAll(t, dir, files)
	return dir
}

var variableUse = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// validate runs `authgate validate`, with every variable that content uses set.
func validate(t *testing.T, dir, content string) (string, error) {
	t.Helper()
	world.WriteAll(t, dir, map[string]string{"config.yaml": content})
	cmd := exec.Command(world.Program("authgate"), "validate")
	cmd.Dir, cmd.Env = dir, os.Environ()
	for _, use := range variableUse.FindAllStringSubmatch(content, -1) {
		cmd.Env = append(cmd.Env, use[1]+"="+strings.Repeat("x", 32))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// merge puts a part of a configuration into a whole one: mappings key by key,
// everything else in place of what was there.
func merge(into, part map[string]any) {
	for key, value := range part {
		below, ok := value.(map[string]any)
		if old, both := into[key].(map[string]any); ok && both {
			merge(old, below)
		} else {
			into[key] = value
		}
	}
}

func encodeYAML(t *testing.T, m map[string]any) string {
	t.Helper()
	return string(world.Must(yaml.Marshal(m))(t))
}
