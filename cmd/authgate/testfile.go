package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/explain"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// maxTestFile is the largest size of a file of tests, in bytes.
const maxTestFile = 8 << 20

// testFile is a file of tests.
type testFile struct {
	Config string     `yaml:"config"` // resolved
	Tests  []testCase `yaml:"tests"`
}

// testCase is one test.
type testCase struct {
	Name    string      `yaml:"name"` // default: method and URL
	Request testRequest `yaml:"request"`
	As      testCaller  `yaml:"as"` // default: none
	Expect  expectation `yaml:"expect"`

	place string // FILE:LINE
}

type testRequest struct {
	Method string     `yaml:"method"`
	URL    string     `yaml:"url"`
	From   netip.Addr `yaml:"from"`
	Verify bool       `yaml:"verify"` // a proxy asks about the request

	Headers map[string]string `yaml:"headers"`

	// The message of a POST to an MCP server.
	MCPMethod string `yaml:"mcp_method"`
	MCPName   string `yaml:"mcp_name"`
}

// testCaller is a user of the configuration, or an identity in words.
type testCaller struct {
	User  string
	Words *testIdentity
}

type testIdentity struct {
	// User is a user of the configuration, with no other property than those of the login
	// and of a token.
	User string `yaml:"user"`

	Username  string           `yaml:"username"`
	Roles     []string         `yaml:"roles"`
	Mechanism policy.Mechanism `yaml:"mechanism"`
	Provider  string           `yaml:"provider"`
	Email     string           `yaml:"email"`
	Scopes    []string         `yaml:"scopes"`

	Client   string `yaml:"client"`   // that has the token
	Resource string `yaml:"resource"` // that the token is for
	Actor    string `yaml:"actor"`    // that acts for the user with it

	Claims map[string][]string `yaml:"claims"`

	Factors int           `yaml:"factors"` // that the user has proved in the login
	Age     time.Duration `yaml:"age"`     // how long ago that was
}

// expectation is the result that a test expects. A missing value is free.
type expectation struct {
	Outcome string            `yaml:"outcome"`
	Route   string            `yaml:"route"`
	Headers map[string]string `yaml:"headers"` // an empty value: the header is not sent

	hasRoute bool
}

// readTestFile reads a file of tests. The error is a *strictyaml.Diagnostics if
// the file has mistakes.
func readTestFile(path string) (*testFile, error) {
	source, _, err := strictyaml.ReadFile(path, maxTestFile)
	if err != nil {
		return nil, err
	}
	reader := strictyaml.NewReader(strictyaml.Options{
		Main: path, Lookup: os.LookupEnv,
		Parse: map[reflect.Type]func(path, value string) (any, error){
			reflect.TypeFor[netip.Addr](): func(_, value string) (any, error) {
				addr, err := netip.ParseAddr(value)
				if err != nil {
					return nil, fmt.Errorf("%q is not an IP address", value)
				}
				return addr, nil
			},
		},
		Either: map[reflect.Type]string{
			reflect.TypeFor[testCaller](): "the name of a user, none, or the username, roles, mechanism, " +
				"provider, email, scopes, client, resource, actor, claims, factors and age of an identity",
		},
	})
	var file testFile
	doc := reader.Read(path, source, maxTestFile, "", &file)
	if !doc.Unreadable("") {
		file.checkTests(doc)
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	file.Config = reader.Resolve(file.Config)
	return &file, nil
}

func (f *testFile) checkTests(doc *strictyaml.Document) {
	if f.Config == "" {
		doc.Fault("config", "is missing; expected the path of the configuration, relative to this file")
	}
	if len(f.Tests) == 0 {
		doc.Fault("tests", "has no test; expected at least one")
	}
	for i := range f.Tests {
		f.Tests[i].checkCase(doc, fmt.Sprintf("tests[%d]", i))
	}
}

// outcomes are those that a test can expect.
var outcomes = [...]string{
	explain.OutcomeAllow, explain.OutcomeChallenge, explain.OutcomeForbid, explain.OutcomeNotFound,
	explain.OutcomeBadRequest,
}

func (t *testCase) checkCase(doc *strictyaml.Document, path string) {
	t.place = doc.Place(path)
	if t.Request.Method == "" {
		doc.Fault(path+".request.method", "is missing; expected a method like GET")
	}
	if t.Request.URL == "" {
		doc.Fault(path+".request.url", "is missing; expected an https URL, or a path at the host of public_url")
	}
	for name := range t.Request.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			doc.Fault(strictyaml.Join(path+".request.headers", name), "%q is not the name of a header", name)
		}
	}
	if t.Name == "" {
		t.Name = t.Request.Method + " " + t.Request.URL
	}
	switch m := path + ".as.mechanism"; {
	case t.As.Words == nil:
		if t.As.User == "" && doc.Given(path+".as") {
			doc.Fault(path+".as", "is empty; expected the name of a user, or none")
		}
	case doc.Given(m) && policy.CheckMechanism(string(t.As.Words.Mechanism)) != nil:
		doc.Fault(m, "%q %v", t.As.Words.Mechanism, policy.CheckMechanism(string(t.As.Words.Mechanism)))
	}
	if words := t.As.Words; words != nil {
		if at := path + ".as.factors"; doc.Given(at) && policy.CheckFactors(words.Factors) != nil {
			doc.Fault(at, "%v", policy.CheckFactors(words.Factors))
		}
		if at := path + ".as.age"; doc.Given(at) && policy.CheckMaxAge(words.Age) != nil {
			doc.Fault(at, "%v", policy.CheckMaxAge(words.Age))
		}
	}
	t.Expect.checkKeys(doc, path+".expect")
}

func (e *expectation) checkKeys(doc *strictyaml.Document, path string) {
	e.hasRoute = doc.Given(path + ".route")
	if e.Outcome != "" && !slices.Contains(outcomes[:], e.Outcome) || e.Outcome == "" && doc.Given(path+".outcome") {
		doc.Fault(path+".outcome", "%q is not an outcome; expected one of %s",
			e.Outcome, strings.Join(outcomes[:], ", "))
	}
	if e.Outcome == "" && !e.hasRoute && len(e.Headers) == 0 {
		doc.Fault(path, "expects nothing; expected an outcome, a route or headers")
	}
	for name := range e.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			doc.Fault(strictyaml.Join(path+".headers", name), "%q is not the name of a header", name)
		}
	}
}

// described returns the request of the test.
func (t *testCase) described() *explain.Request {
	d := &explain.Request{Method: t.Request.Method, URL: t.Request.URL, From: t.Request.From, Verify: t.Request.Verify,
		MCPMethod: t.Request.MCPMethod, MCPName: t.Request.MCPName, Header: http.Header{}}
	for name, value := range t.Request.Headers {
		d.Header[name] = []string{value}
	}
	switch words := t.As.Words; {
	case words != nil:
		d.Caller = &explain.Caller{
			Username: words.Username, Roles: words.Roles, Mechanism: words.Mechanism, Provider: words.Provider,
			Email:  words.Email,
			Scopes: words.Scopes, Claims: words.Claims, Client: words.Client, Resource: words.Resource,
			Actor: words.Actor,
			User:  words.User, Factors: words.Factors, Age: words.Age,
		}
	case t.As.User != "":
		d.Caller = callerAs(t.As.User, "")
	}
	return d
}
