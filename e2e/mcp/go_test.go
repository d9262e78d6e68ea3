package mcp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestToolsGo: an agent with the official SDK for Go uses the tools, prompts and resources of a server of the same
// SDK that its policy permits. It sees an error for each other one, and goes on.
func TestToolsGo(t *testing.T) {
	t.Parallel()
	s := protect(t, serveGo(t))
	for _, version := range []string{withSessions, withoutSessions} {
		s.check(t, version, tourGo(t, s, version))
	}
	s.checkServer(t)
}

// serveGo starts an MCP server for each version, and returns their address.
func serveGo(t *testing.T) string {
	t.Helper()
	routes := http.NewServeMux()
	for version, options := range map[string]*mcp.StreamableHTTPOptions{
		withSessions:    {EventStore: mcp.NewMemoryEventStore(nil)},
		withoutSessions: {Stateless: true},
	} {
		server := newServer()
		routes.Handle("/mcp/"+version, mcp.NewStreamableHTTPHandler(
			func(*http.Request) *mcp.Server { return server }, options))
	}
	return strings.TrimPrefix(world.Serve(t, routes.ServeHTTP), "http://")
}

// text is the result of a tool.
func text(said string) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil, nil
}

// newServer returns a server with what the tour looks at.
func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	addTools(server)
	server.AddResource(&mcp.Resource{Name: "today", URI: "notes://today"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			note := &mcp.ResourceContents{URI: r.Params.URI, Text: "a note"}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{note}}, nil
		})
	server.AddPrompt(&mcp.Prompt{Name: "greet"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			hello := &mcp.PromptMessage{Role: "user", Content: &mcp.TextContent{Text: "hello"}}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{hello}}, nil
		})
	return server
}

// addTools gives a server its tools.
func addTools(server *mcp.Server) {
	type request = *mcp.CallToolRequest
	add := func(name string, call mcp.ToolHandlerFor[struct{}, any]) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, call)
	}
	add("search_text", func(ctx context.Context, r request, _ struct{}) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			half := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "half"}
			if err := r.Session.NotifyProgress(ctx, half); err != nil {
				return nil, nil, err
			}
		}
		return text(r.Extra.Header.Get("X-Auth-User") + " finds text")
	})
	add("search_ask", func(_ context.Context, r request, _ struct{}) (*mcp.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["color"].(*mcp.ElicitResult); ok {
			return text(answer.Content["color"].(string))
		}
		color := map[string]any{"color": map[string]any{"type": "string"}}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"color": &mcp.ElicitParams{
			Message: "Which color?", RequestedSchema: map[string]any{"type": "object", "properties": color},
		}}}, nil, nil
	})
	add("search_slow", func(_ context.Context, r request, _ struct{}) (*mcp.CallToolResult, any, error) {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		return text("after the break")
	})
	add("search_more", func(context.Context, request, struct{}) (*mcp.CallToolResult, any, error) {
		server.AddPrompt(&mcp.Prompt{Name: "more"}, nil)
		return text("more")
	})
	add("delete_all", func(context.Context, request, struct{}) (*mcp.CallToolResult, any, error) {
		return text("deleted")
	})
}

// bearer adds a token to each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// tourGo is the tour of an agent with the SDK for Go.
func tourGo(t *testing.T, s *server, version string) (saw seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	changed, progress := make(chan bool, 100), make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "blue"}}, nil
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { changed <- true },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			progress <- r.Params.Message
		},
	})
	stranger := s.Stranger()
	stranger.Timeout = 0 // streams last
	stranger.Transport = bearer{s.token, stranger.Transport}
	session := world.Must(client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.endpoint(version), HTTPClient: stranger,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
	defer session.Close()
	call := func(params *mcp.CallToolParams) string {
		result := world.Must(session.CallTool(ctx, params))(t)
		if len(result.Content) != 1 {
			t.Fatalf("%s says %+v", params.Name, result)
		}
		return result.Content[0].(*mcp.TextContent).Text
	}

	saw.Version = session.InitializeResult().ProtocolVersion
	for tool, err := range session.Tools(ctx, nil) {
		world.NoError(t, err)
		saw.Tools = append(saw.Tools, tool.Name)
	}
	asked := &mcp.CallToolParams{Name: "search_text"}
	asked.SetProgressToken("p")
	saw.Text = call(asked)
	saw.Progress = []string{<-progress}
	saw.Answer = call(&mcp.CallToolParams{Name: "search_ask"})
	if version == withSessions {
		saw.Resumed = call(&mcp.CallToolParams{Name: "search_slow"})
	}
	world.Until(t, "the notification", func() bool {
		call(&mcp.CallToolParams{Name: "search_more"})
		return len(changed) > 0
	})
	saw.Changed = true
	read := world.Must(session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "notes://today"}))(t)
	saw.Resource = read.Contents[0].Text
	prompt := world.Must(session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet"}))(t)
	saw.Prompt = prompt.Messages[0].Content.(*mcp.TextContent).Text

	_, noTool := session.CallTool(ctx, &mcp.CallToolParams{Name: "delete_all"})
	_, noPrompt := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "secret"})
	_, noResource := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///etc/passwd"})
	for _, err := range []error{noTool, noPrompt, noResource} {
		if said, ok := errors.AsType[*jsonrpc.Error](err); ok {
			saw.Refused = append(saw.Refused, refusal{int(said.Code), said.Message})
		} else {
			t.Errorf("refused with %v", err)
		}
	}
	saw.Again = call(&mcp.CallToolParams{Name: "search_text"})
	return saw
}
