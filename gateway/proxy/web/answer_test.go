package web

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A page is in the language that the browser asks for. Caches learn that it
// depends on that.
func TestPageLanguage(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{"": "en", "de-CH, en;q=0.8": "de"} {
		e := newExchange(t, request("/", "Accept: text/html", "Accept-Language: "+accept))
		e.Header().Add("Vary", "Origin")
		e.Fail(errors.New("broken"))
		h := e.w.Header()
		if got := h.Get("Content-Language"); got != want || !strings.Contains(e.w.Body.String(), `<html lang="`+want+`">`) {
			t.Errorf("Accept-Language %q: %q\n%s", accept, got, e.w.Body)
		}
		if vary := h["Vary"]; !slices.Equal(vary, []string{"Origin", "Accept-Language", "Cookie"}) {
			t.Errorf("Accept-Language %q: Vary is %q", accept, vary)
		}
	}
	e := newExchange(t, request("/", "Accept-Language: de"))
	e.Fail(errors.New("broken"))
	if h := e.w.Header(); h["Content-Language"] != nil || h["Vary"] != nil {
		t.Errorf("JSON has a language: %v", h)
	}
}

// A cookie that is no longer valid is cleared once, however often it is found.
func TestClearStaleOnce(t *testing.T) {
	t.Parallel()
	e := newExchange(t, request("/"))
	for _, name := range []string{"session_id", "session"} {
		e.Stale.names = append(e.Stale.names, name)
		e.Stale.Clear(e)
		e.Stale.Clear(e)
	}
	if cookies := e.w.Header()["Set-Cookie"]; len(cookies) != 2 ||
		!strings.HasPrefix(cookies[0], "session_id=;") || !strings.HasPrefix(cookies[1], "session=;") {
		t.Errorf("the answer clears %q", cookies)
	}
}
