package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
	wire "authgate/gateway/wire/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// post is a message as a client sends it.
type post struct {
	Body    []byte            `json:"body"`
	Headers map[string]string `json:"headers"`

	read *wire.Message // by the gateway
}

// heard is a message that a server of an SDK read. What it names is a string, or what its client put there. A string
// with half a pair of surrogates, which JSON in UTF-8 cannot show, is illFormed.
type heard struct {
	Method  string
	Request bool     // else it is a notification, of which the method alone is known
	Name    any      // of a tool or a prompt
	URI     any      // of a resource
	Task    any      // its id
	Watched []string // URIs of resources
}

const illFormed = "half a pair of surrogates"

// reading is what a server of an SDK read in a post, and its answer: a JSON text, or an event stream with one.
type reading struct {
	Messages []heard
	Answer   string
}

// TestReadersAgree: servers of the official SDKs for Go, TypeScript and Python read a message as the gateway reads it,
// or refuse it. They read the same method, and the same tool, prompt, resource, task or subscriptions.
func TestReadersAgree(t *testing.T) {
	t.Parallel()
	posts := acceptedPosts(t)
	for name, read := range map[string]func(*testing.T, []post) []reading{
		"Go": readGo, "TypeScript": readBy("node", "reader.mjs"), "Python": readBy("./venv/bin/python", "reader.py"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both := map[string]int{} // messages that gateway and SDK accept, by method
			for i, r := range read(t, posts) {
				if fault := r.compare(posts[i].read); fault != "" {
					m := posts[i].read
					t.Errorf("%s\nis %s %q %q with id %s, but the SDK reads another %s:\n%s", posts[i].Body, m.Method,
						m.Name, m.Watched, m.ID, fault, show(t, r))
					continue
				}
				for _, m := range r.Messages {
					if m.Request {
						both[m.Method]++
					}
				}
			}
			t.Logf("of %d messages, requests that both accept: %v", len(posts), both)
			for _, method := range []string{"tools/call", "prompts/get", "resources/read", "resources/subscribe",
				"subscriptions/listen"} {
				if both[method] < 40 {
					t.Errorf("both accept %d requests %s alone", both[method], method)
				}
			}
		})
	}
}

// acceptedPosts are messages that the gateway accepts, each with the headers that its version of the protocol needs.
func acceptedPosts(t *testing.T) (posts []post) {
	t.Helper()
	const seeds = "gateway/wire/mcp/testdata/messages"
	bodies := bytes.Split(world.Must(os.ReadFile(world.Path(seeds)))(t), []byte("\n"))
	for _, body := range append(bodies, oddMessages(5_000)...) {
		m, err := wire.Read(body)
		if err != nil {
			continue
		}
		headers := map[string]string{"Content-Type": world.TypeJSON, "Accept": world.TypeJSON + ", text/event-stream"}
		if m.CheckHeaders(http.Header{wire.VersionHeader: {withSessions}}) != nil { // it says another version
			headers[wire.VersionHeader] = withoutSessions
			headers[wire.MethodHeader] = fieldValue(m.Method)
			if m.Name != "" {
				headers[wire.NameHeader] = fieldValue(m.Name)
			}
		}
		posts = append(posts, post{body, headers, m})
	}
	return posts
}

// fieldValue is a text as the value of a header.
func fieldValue(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	return text
}

// compare returns what an SDK reads otherwise than the gateway, by which a decision could be got around.
// Responses decide nothing, because they meet every list. An SDK may take a request for a notification.
func (r *reading) compare(m *wire.Message) string {
	if len(r.Messages) > 1 {
		return "number of messages"
	}
	for _, got := range r.Messages {
		same := true
		switch kind, _ := m.Subject(); {
		case got.Method != m.Method:
			return "method"
		case !got.Request:
			continue
		case m.ID == nil:
			return "kind of message"
		case kind == "tool" || kind == "prompt":
			same = got.Name == m.Name
		case kind == "resource":
			same = got.URI == m.Name
		case strings.HasPrefix(m.Method, "tasks/"):
			same = sameTask(m, got.Task)
		default:
			same = slices.Equal(got.Watched, m.Watched)
		}
		if !same {
			return "name"
		}
		if !sameID(m.ID, r.id()) {
			return "id"
		}
	}
	return ""
}

// sameTask reports whether a task is that of a message. No decision depends on a task, but its header does: the gateway
// takes what is no string, or has half a pair of surrogates, for no task.
func sameTask(m *wire.Message, task any) bool {
	text, isText := task.(string)
	header := http.Header{wire.MethodHeader: {fieldValue(m.Method)}, wire.NameHeader: {fieldValue(text)}}
	return !isText || text == illFormed || m.CheckHeaders(header) == nil
}

// id is the id in the answer, nil if it has none.
func (r *reading) id() json.RawMessage {
	text := r.Answer
	if _, data, ok := strings.Cut(text, "data: "); ok && !strings.HasPrefix(text, "{") {
		text, _, _ = strings.Cut(data, "\n")
	}
	var answer struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal([]byte(text), &answer) != nil {
		return nil
	}
	if id, ok := answer.Params.Meta["io.modelcontextprotocol/subscriptionId"]; ok {
		return id
	}
	return answer.ID
}

// sameID reports whether an SDK answers with the id of a message. Ids that are strings are equal. Ids that are integers
// within the precision of doubles are equal in value. Of other numbers, SDKs keep as much as their types
// hold, and it need only be a number. No decision depends on an id: the gateway repeats it in its own answers, as the
// client wrote it, and forwards it unread.
func sameID(sent, got json.RawMessage) bool {
	if sent[0] == '"' {
		var a, b string
		return json.Unmarshal(sent, &a) == nil && json.Unmarshal(got, &b) == nil && a == b
	}
	a, err := strconv.ParseFloat(string(sent), 64)
	if err != nil || math.Abs(a) > 1<<53 || a != math.Trunc(a) {
		return len(got) > 0 && strings.ContainsRune("-0123456789", rune(got[0]))
	}
	b, err := strconv.ParseFloat(string(got), 64)
	return err == nil && a == b
}

// readBy returns a function that reads posts by a program of testdata.
func readBy(program, file string) func(*testing.T, []post) []reading {
	return func(t *testing.T, posts []post) (all []reading) {
		t.Helper()
		var lines, said bytes.Buffer
		for _, p := range posts {
			world.NoError(t, json.NewEncoder(&lines).Encode(p))
		}
		reader := exec.CommandContext(t.Context(), world.FindProgram(t, program), filepath.Join("testdata", file))
		reader.Stdin, reader.Stderr = &lines, &said
		out, err := reader.Output()
		for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
			var r reading
			world.NoError(t, decoder.Decode(&r))
			all = append(all, r)
		}
		if err != nil || len(all) != len(posts) {
			t.Fatalf("%s read %d of %d posts: %v\n%s", file, len(all), len(posts), err, said.String())
		}
		return all
	}
}

// readGo reads posts as a server of the SDK for Go does.
func readGo(t *testing.T, posts []post) []reading {
	t.Helper()
	all := make([]reading, len(posts))
	var r *reading
	server := mcp.NewServer(&mcp.Implementation{Name: "reader", Version: "1.0.0"}, nil)
	server.AddReceivingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler {
		return func(_ context.Context, method string, request mcp.Request) (mcp.Result, error) {
			r.Messages = append(r.Messages, heardGo(method, request.GetParams()))
			return nil, errors.New("read")
		}
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for i, p := range posts {
		r = &all[i]
		// The handler answers notifications before a server reads them.
		decoded, err := jsonrpc.DecodeMessage(p.Body)
		if request, ok := decoded.(*jsonrpc.Request); err != nil || !ok || !request.IsCall() {
			if ok {
				r.Messages = append(r.Messages, heard{Method: request.Method})
			}
			continue
		}
		request := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1/mcp", bytes.NewReader(p.Body))
		for name, value := range p.Headers {
			request.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		r.Answer = answer.Body.String()
	}
	return all
}

// heardGo is a request as the SDK for Go gives it to a server.
func heardGo(method string, params mcp.Params) heard {
	h := heard{Method: method, Request: true}
	switch params := params.(type) {
	case *mcp.CallToolParamsRaw:
		h.Name = params.Name
	case *mcp.GetPromptParams:
		h.Name = params.Name
	case *mcp.ReadResourceParams:
		h.URI = params.URI
	case *mcp.SubscribeParams:
		h.URI = params.URI
	case *mcp.UnsubscribeParams:
		h.URI = params.URI
	case *mcp.SubscriptionsListenParams:
		if params.Notifications != nil {
			h.Watched = params.Notifications.ResourceSubscriptions
		}
	}
	return h
}
