package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// The documents are code: what they show is run. The word or words after the
// opening ``` of a block say what it is.
//
//	console          what one types after "$ " and what is then printed. Each
//	                 document is one shell in one folder, beside the
//	                 demonstration on the shipped config.yaml. A line that ends
//	                 in \ goes on in the next. The files of the document are
//	                 in the folder.
//	yaml             a whole configuration
//	yaml fragment    a part of one; it is put into fragmentBase
//	LANG NAME.EXT    the file NAME.EXT, which configurations of the same
//	                 document name
//	sh               what is not run; targets of the Makefile must exist
//
// "…" matches any text within a line, and alone on a line for any lines.
// Password hashes that end in it are completed.

// document is one Markdown file.
type document struct {
	name   string // from the top of the repository, with slashes
	text   string
	prose  string // the text without blocks
	blocks []block
}

// block is a fenced code block.
type block struct {
	line  int // of its opening, from 1
	info  string
	lines []string
}

func (b *block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// file is the name of the file that the block shows, if it shows one.
func (b *block) file() (name string, ok bool) {
	_, name, _ = strings.Cut(b.info, " ")
	return name, strings.Contains(name, ".")
}

// documents reads all Markdown files that are shown to people.
func documents(t *testing.T) map[string]*document {
	t.Helper()
	docs := map[string]*document{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no documents are called %s (%v)", pattern, err)
		}
		for _, file := range paths {
			name := strings.TrimPrefix(filepath.ToSlash(file), "../")
			docs[name] = parseDocument(t, name, readFile(t, file))
		}
	}
	return docs
}

func parseDocument(t *testing.T, name, text string) *document {
	t.Helper()
	doc := &document{name: name, text: text}
	var open *block
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{line: i + 1, info: strings.TrimSpace(info)}
		case fence:
			doc.blocks, open = append(doc.blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			doc.prose += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", name, open.line)
	}
	return doc
}

// command is what one types, and what is printed then.
type command struct {
	line           int // of its block
	text, expected string
}

// typed matches a command, whose lines go on after \, and what is printed.
var typed = regexp.MustCompile(`(?s)^((?:[^\n]*\\\n)*[^\n]*)\n(.*)$`)

// commands are those of the document's console blocks.
func (d *document) commands(t *testing.T) []command {
	t.Helper()
	var all []command
	for _, b := range d.blocks {
		if b.info != "console" {
			continue
		}
		parts := strings.Split("\n"+b.text(), "\n$ ")
		if parts[0] != "" {
			t.Fatalf("%s:%d: a console block begins with a command after \"$ \"", d.name, b.line)
		}
		for _, part := range parts[1:] {
			found := typed.FindStringSubmatch(part + "\n")
			all = append(all, command{b.line, found[1], found[2]})
		}
	}
	return all
}

func TestDocsConsole(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	for name, doc := range docs {
		commands := doc.commands(t)
		if len(commands) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			demo := startDemo(t)
			demo.write(doc)
			for i, printed := range demo.shell(commands) {
				c := commands[i]
				if expected := demo.place(c.expected); !matches(expected, printed) {
					t.Errorf("%s:%d: $ %s\nprinted:\n%s\nthe document has:\n%s", name, c.line, c.text, printed, expected)
				}
			}
			_ = demo.cmd.Process.Signal(syscall.SIGINT) // as Ctrl-C does; the exit status tells
			if <-demo.done; !demo.cmd.ProcessState.Success() {
				t.Errorf("the demonstration does not stop cleanly: %v\n%s", demo.cmd.ProcessState, demo.log)
			}
			checkLog(t, docs[observabilityPage], demo.log.String())
		})
	}
	if len(docs["README.md"].commands(t)) == 0 {
		t.Error("README.md shows no command")
	}
}

// demonstration is what `make run` starts, on ports of its own.
type demonstration struct {
	t     *testing.T
	dir   string
	ports map[string]string // by the port in config.yaml
	log   *lines
	cmd   *exec.Cmd
	done  <-chan struct{}
}

func startDemo(t *testing.T) *demonstration {
	t.Helper()
	d := &demonstration{t: t, dir: t.TempDir(), ports: map[string]string{}, log: &lines{}}
	for _, port := range []string{"8443", "8080", "9090", "9000", "9400"} {
		d.ports[port] = freePort(t)
	}
	writeAll(t, d.dir, map[string]string{
		"config.yaml": d.place(readFile(t, "../config.yaml")),
		".curlrc":     "silent\nshow-error\n", // as at a terminal: no progress meter
	})
	d.cmd = exec.Command(filepath.Join(programs, "demo"))
	d.cmd.Dir, d.cmd.Stderr = d.dir, d.log
	d.done = spawn(t, d.cmd)
	if err := await("http://127.0.0.1:"+d.ports["9090"]+"/readyz", d.done); err != nil {
		t.Fatalf("the demonstration does not get ready: %v\n%s", err, d.log)
	}
	return d
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// write puts the files that a document shows into the folder of its shell.
func (d *demonstration) write(doc *document) {
	files := map[string]string{}
	for _, b := range doc.blocks {
		if name, ok := b.file(); ok && filepath.IsLocal(name) && name == filepath.Base(name) {
			files[name] = d.place(b.text())
		}
	}
	delete(files, "config.yaml") // that of the demonstration
	writeAll(d.t, d.dir, files)
}

var shippedPort = regexp.MustCompile(`(:|%3A)(8443|8080|9090|9000|9400)\b`) // %3A: a colon in a query

// place puts the ports of this demonstration where text has the shipped ones.
func (d *demonstration) place(text string) string {
	return shippedPort.ReplaceAllStringFunc(text, func(found string) string {
		colon := len(found) - 4
		return found[:colon] + d.ports[found[colon:]]
	})
}

// shell types the commands into one shell and returns what each printed.
func (d *demonstration) shell(commands []command) []string {
	d.t.Helper()
	const mark = "--- end of output ---"
	var script strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&script, "%s\nprintf '\\n%s\\n'\n", d.place(c.text), mark)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", script.String())
	bash.Dir = d.dir
	bash.Env = append(os.Environ(), "HOME="+d.dir, "CURL_HOME="+d.dir,
		"PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := bash.CombinedOutput()
	printed := strings.Split(string(output), "\n"+mark+"\n")
	if err != nil || len(printed) != len(commands)+1 {
		d.t.Fatalf("the shell stopped after %d of %d commands: %v\n%s", len(printed)-1, len(commands), err, output)
	}
	return printed[:len(commands)]
}

var (
	spacesAtEnd = regexp.MustCompile(`(?m)[ \r]+$`)
	anyLines    = regexp.MustCompile(`(?m)^…\n`)
)

// matches compares what was printed with what a document has. Spaces at the
// end of lines and empty lines at the end do not count.
func matches(expected, printed string) bool {
	tidy := func(text string) string {
		return strings.TrimRight(spacesAtEnd.ReplaceAllString(text, ""), "\n") + "\n"
	}
	pattern := anyLines.ReplaceAllString(regexp.QuoteMeta(tidy(expected)), `(?:.*\n)*`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(pattern, "…", ".*") + `\z`).MatchString(tidy(printed))
}

// checkLog checks that observabilityPage knows each field of the log, and that no
// password of the demonstration is in it.
func checkLog(t *testing.T, page *document, log string) {
	t.Helper()
	known := spans(page.prose)
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] != "request" && entry["msg"] != "audit" {
			continue
		}
		for field := range entry {
			if !known[field] {
				t.Errorf("%s does not mention the field %s of the log line %s", page.name, field, line)
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
`

// complete writes password hashes out that a document cuts short.
func complete(text string) string {
	return strings.NewReplacer(
		"$argon2id$v=19$m=19456,t=2,p=1$…", "$argon2id$v=19$m=19456,t=2,p=1$bm90IGEgcmVhbCBzYWx0$bm90IHRoZSBoYXNoIG9mIGEgcGFzc3dvcmQ",
		"$2y$10$…", "$2y$10$"+strings.Repeat("a", 53),
	).Replace(text)
}

func TestDocsConfigurations(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, doc := range documents(t) {
		dir := configurationFolder(t, doc)
		for _, b := range doc.blocks {
			var content string
			switch _, file := b.file(); {
			case b.info == "yaml":
				content = complete(b.text())
			case b.info == "yaml fragment":
				whole := decodeYAML(t, complete(fragmentBase))
				merge(whole, decodeYAML(t, complete(b.text())))
				content = encodeYAML(t, whole)
			case !file && b.info != "console" && b.info != "sh":
				t.Errorf("%s:%d: a block of %q is not known", name, b.line, b.info)
				continue
			default:
				continue
			}
			checked++
			if out, err := validate(t, dir, content); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
		}
	}
	if checked == 0 {
		t.Error("no document shows a configuration")
	}
}

// configurationFolder holds the files that configurations of doc name.
func configurationFolder(t *testing.T, doc *document) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"alice.hash": complete("$2y$10$…\n")}
	for name, from := range map[string]string{"cert.pem": "tls-certificate.pem", "key.pem": "tls-key.pem", "roots.pem": "tls-certificate.pem"} {
		files[name] = readFile(t, filepath.Join("../gateway/config/testdata/files", from))
	}
	for _, b := range doc.blocks {
		if name, ok := b.file(); ok {
			files[name] = complete(b.text())
		}
	}
	writeAll(t, dir, files)
	return dir
}

var variableUse = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// validate runs `authgate validate`, with every variable that content uses set.
func validate(t *testing.T, dir, content string) (string, error) {
	t.Helper()
	writeAll(t, dir, map[string]string{"config.yaml": content})
	cmd := exec.Command(filepath.Join(programs, "authgate"), "validate")
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

func decodeYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

func encodeYAML(t *testing.T, m map[string]any) string {
	t.Helper()
	return string(must(yaml.Marshal(m))(t))
}
