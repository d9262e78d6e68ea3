// Package pages renders the pages of the gateway itself: sign-in, error, account,
// the confirmation before signing out, and the page after it.
//
// The package writes bodies only. The caller sets the status, Content-Type
// (text/html; charset=utf-8), Content-Language, Vary, Cache-Control and
// Content-Security-Policy, see [Pages.ContentSecurityPolicy]. The caller also
// checks that a path to return to is on this origin.
//
// A [Set] has the pages in each language. The texts of a language are in one file
// in the folder texts. A template writes {{t "a.key"}}, with names and values for
// the places in the text: {{t "signin.heading" "host" .Host}}.
//
// # Limits and threats
//
// Attackers choose some of the values on a page: the path to return to, a user
// name, the profile at an identity provider. html/template escapes each value for
// its context. The Content-Security-Policy allows the style sheet and the scripts of the page, by
// their hashes, and nothing else. So a mistake in a template can neither run another script nor
// send a form to an origin other than the gateway's or a provider's. A page has no font. Its only
// requests are for passkeys and for the icons of applications, at this origin. The
// operator's logo is part of the page; browsers run no script in an image.
package pages

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed style.css
var style string

// Options are the operator's choices for the pages. The zero Options are valid.
type Options struct {
	Title  string // the name of the service
	Logo   Logo
	Accent string // a colour, #rgb or #rrggbb; empty: the default
	Help   string // a text, or an https: or mailto: URL; empty: none
	Texts  Texts  // in place of the texts of the pages, and in more languages
}

// Set is the pages of a service in each language. Its methods may be called
// concurrently.
type Set struct {
	pages   []func() *Pages // by the index of the matcher; made when first needed
	tags    []string
	matcher language.Matcher
}

// New reads the embedded templates and texts. An accent that is not a colour, and a language
// that is none, are errors.
func New(o Options) (*Set, error) {
	rules, err := accentRules(o.Accent)
	if err != nil {
		return nil, fmt.Errorf("pages: the accent: %w", err)
	}
	languages, err := builtIn()
	if err != nil {
		return nil, fmt.Errorf("pages: reading the texts: %w", err)
	}
	if languages, err = withOwn(languages, o.Texts); err != nil {
		return nil, fmt.Errorf("pages: the operator's texts: %w", err)
	}
	scripts, err := readScripts()
	if err != nil {
		return nil, fmt.Errorf("pages: reading the scripts: %w", err)
	}
	l := newLayout(o, style+rules, scripts)
	parsed, err := parseAll()
	if err != nil {
		return nil, err
	}
	set := &Set{}
	var tags []language.Tag
	for _, texts := range languages {
		set.pages = append(set.pages, sync.OnceValue(func() *Pages { return newPages(l, texts, parsed) }))
		set.tags, tags = append(set.tags, texts.tag.String()), append(tags, texts.tag)
		l.Languages = append(l.Languages, offered{texts.tag.String(), texts.all[ownName]})
	}
	set.matcher = language.NewMatcher(tags)
	return set, nil
}

// In returns the pages in the language that the user has chosen, by its tag. Without a choice it is
// the one that fits the Accept-Language header of a request best (RFC 9110, section 12.5.4), and
// otherwise English.
func (s *Set) In(chosen string, accept []string) *Pages {
	if i := slices.Index(s.tags, chosen); i >= 0 {
		return s.pages[i]()
	}
	_, i := language.MatchStrings(s.matcher, strings.Join(accept, ","))
	return s.pages[i]()
}

// Tags returns the tags of the languages.
func (s *Set) Tags() []string { return slices.Clone(s.tags) }

// layout has the values in the frame of all pages.
type layout struct {
	Title    string
	Logo     template.URL // empty: the gateway's own mark
	Help     string       // a text
	HelpURL  string
	HelpMail string // the address in HelpURL

	Languages []offered

	style   string
	scripts scripts
	policy  string // the part of the Content-Security-Policy for style
}

func newLayout(o Options, style string, scripts scripts) *layout {
	l := &layout{Title: o.Title, style: style, scripts: scripts, policy: "style-src " + hashSource(style)}
	if len(o.Logo.Content) > 0 {
		content := base64.StdEncoding.EncodeToString(o.Logo.Content)
		l.Logo = template.URL("data:" + o.Logo.MediaType + ";base64," + content)
	}
	address, mail := strings.CutPrefix(o.Help, "mailto:")
	switch {
	case mail:
		l.HelpURL = o.Help
		l.HelpMail, _, _ = strings.Cut(address, "?")
	case strings.HasPrefix(o.Help, "https:"):
		l.HelpURL = o.Help
	default:
		l.Help = o.Help
	}
	return l
}

// Pages holds the parsed templates of one language. Its methods may be called
// concurrently. Each renders the whole page before it writes. It returns an error of
// the template, in which case it has written nothing, or an error of w.
type Pages struct {
	templates map[string]*template.Template // by the names in pageFiles
	language  string
	layout    *layout
	choice    *Switch // nil: users cannot choose another language here
}

// offered is a language of the pages: its tag, and its name in itself.
type offered struct{ Tag, Name string }

// Switch is the form by which users choose the language of the pages.
type Switch struct {
	// Action is the URL that the form is posted to, with the fields language and back, and
	// csrf_token unless CSRFToken is empty.
	Action, CSRFToken string
	// Back is where the user is.
	Back string
}

// With returns the same pages with a form by which users choose the language.
func (p *Pages) With(s Switch) *Pages {
	with := *p
	with.choice = &s
	return &with
}

// framed has the values of the layout: a page, and the choice of its language.
type framed struct {
	Page   any
	Switch *Switch
}

// pageFiles are the files of each page besides the layout.
var pageFiles = map[string][]string{
	"signin":    {"signin"},
	"code":      {"code"},
	"signedin":  {"signedin"},
	"home":      {"home"},
	"error":     {"error"},
	"account":   {"account"},
	"manage":    {"manage", "factors", "programs"},
	"people":    {"people"},
	"invite":    {"invite"},
	"logout":    {"logout"},
	"signedout": {"signedout"},
	"onward":    {"onward"},
	"ask":       {"ask"},
	"consent":   {"consent"},
	"leave":     {"leave"},
	"device":    {"device"},
	"formpost":  {"formpost"},
}

// parseAll reads all pages, once for all sets: the templates are the same in each. Their functions
// have names alone until newPages gives them to a copy.
var parseAll = sync.OnceValues(func() (map[string]*template.Template, error) {
	named := functions(&layout{}, &texts{})
	parsed := map[string]*template.Template{}
	for page, names := range pageFiles {
		files := []string{"templates/layout.html"}
		for _, name := range names {
			files = append(files, "templates/"+name+".html")
		}
		t, err := template.New("layout.html").Funcs(named).ParseFS(templates, files...)
		if err != nil {
			return nil, fmt.Errorf("pages: reading the template of %s: %w", page, err)
		}
		parsed[page] = t
	}
	return parsed, nil
})

// newPages returns the pages of one language. parsed are those of parseAll, which are never
// executed: else they could not be cloned.
func newPages(l *layout, texts *texts, parsed map[string]*template.Template) *Pages {
	p := &Pages{templates: map[string]*template.Template{}, language: texts.tag.String(), layout: l}
	for page, t := range parsed {
		p.templates[page] = template.Must(t.Clone()).Funcs(functions(l, texts))
	}
	return p
}

// functions returns the functions of templates.
func functions(l *layout, texts *texts) template.FuncMap {
	return template.FuncMap{
		// The style sheet is inserted without escaping, so that its hash matches.
		"style":     func() template.CSS { return template.CSS(l.style) },
		"script":    l.scripts.element,
		"layout":    func() *layout { return l },
		"lang":      texts.tag.String,
		"leftward":  texts.leftward,
		"titled":    texts.titled,
		"t":         texts.text,   // {{t "key" "name" value}}
		"strong":    texts.strong, // the same with emphasized values
		"count":     texts.count,  // {{count "key" number}}
		"mechanism": texts.mechanism,
		"provider":  texts.provider,
		"date":      texts.date,
		"wait":      texts.wait,
		"notice":    texts.notice,
		"problem":   texts.problem,
		"managed":   texts.managed,
		"peopled":   texts.peopled,
		"device":    texts.device,
		"scope":     texts.scope,
		"datetime":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}

// Language returns the language of the pages, for Content-Language.
func (p *Pages) Language() string { return p.language }

// Anywhere is the leadingTo of a page whose forms may lead to any place.
const Anywhere = "*"

// ContentSecurityPolicy returns the value of the header that a page needs (CSP Level 3). It allows
// the style sheet and the scripts of the page, by their hashes, the logo, which is part of the
// page, and the icons of applications on this origin. Forms to this origin may be redirected to the
// origins in leadingTo, with spaces between them, or to Anywhere. It forbids frames and everything
// else.
func (p *Pages) ContentSecurityPolicy(page []byte, leadingTo string) string {
	forms := "; form-action 'self'"
	switch leadingTo {
	case "":
	case Anywhere:
		forms = "" // browsers apply form-action to the redirects after a form too
	default:
		forms += " " + leadingTo
	}
	return "default-src 'none'; " + p.layout.policy + p.layout.images(page) + p.layout.scripts.policy(page) + forms +
		"; frame-ancestors 'none'; base-uri 'none'"
}

// render writes a complete page or nothing.
func (p *Pages) render(w io.Writer, name string, page any) error {
	var body bytes.Buffer
	if err := p.templates[name].Execute(&body, framed{page, p.choice}); err != nil {
		return fmt.Errorf("pages: rendering: %w", err)
	}
	if _, err := body.WriteTo(w); err != nil {
		return fmt.Errorf("pages: writing: %w", err)
	}
	return nil
}
