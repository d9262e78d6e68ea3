package main

import (
	"cmp"
	"errors"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// ask asks for missing values, one at a time, and checks each answer at once.
func (a *adding) ask(t typist) error {
	content, err := os.ReadFile(a.to)
	if err != nil {
		return err
	}
	who := a.public || a.app.Policy != "" || len(a.app.Roles) > 0
	for _, one := range []struct {
		said bool
		ask  func() question
	}{
		{a.app.Name != "", func() question {
			return textQuestion("Name of the application, such as wiki", &a.app.Name)
		}},
		{a.host != "", func() question { return question{"Its host", a.likelyHost(), a.setHost} }},
		{a.app.URL != "", func() question {
			return textQuestion("Its address, such as http://127.0.0.1:4000", &a.app.URL)
		}},
		{who, func() question {
			return question{
				"Who may open it: all users, public (everybody, without sign-in), or roles, separated by commas",
				allUsers, a.setWho,
			}
		}},
		{a.app.Title != "", func() question {
			return question{"Its name on the start page, or none", a.app.Name, a.setTitle}
		}},
	} {
		if one.said {
			continue
		}
		q := one.ask()
		q.set = a.checked(q.set, content)
		if err := q.ask(t); err != nil {
			return err
		}
	}
	return nil
}

// textQuestion asks for a text.
func textQuestion(text string, answer *string) question {
	return question{text: text, set: setText(answer)}
}

// likelyHost returns a host beside that of public_url, or a path of it if there can be no other host.
func (a *adding) likelyHost() string {
	public := a.cfg.PublicURL
	own := strings.TrimSuffix(public.Host, ":"+public.Port())
	return cmp.Or(besideHost(public.Hostname(), a.app.Name), own+"/"+a.app.Name+"/")
}

// besideHost returns a host for an application beside that of the gateway, with its name; none beside
// an address.
func besideHost(gateway, name string) string {
	parent := "localhost"
	if !isLoopback(gateway) {
		if _, err := netip.ParseAddr(gateway); err == nil {
			return ""
		}
		suffix, registry := publicsuffix.PublicSuffix(gateway)
		_, after, ok := strings.Cut(gateway, ".")
		if parent = after; !ok || parent == suffix && (registry || strings.Contains(suffix, ".")) {
			parent = gateway // names beside it are not the operator's
		}
	}
	if host := name + "." + parent; !strings.EqualFold(host, gateway) {
		return host
	}
	return name + "." + gateway
}

// checked returns set, which also checks the configuration with the answer, and takes nothing
// that is wrong.
func (a *adding) checked(set func(string) error, content []byte) func(string) error {
	return func(answer string) error {
		before := *a
		err := set(answer)
		if err == nil {
			err = a.plausible(content)
		}
		if err != nil {
			*a = before
		}
		return err
	}
}

// allUsers is the answer by which all who sign in may open the application. A role is
// seldom called that.
const allUsers = "all users"

// setWho sets who may open the application.
func (a *adding) setWho(answer string) error {
	switch answer {
	case allUsers:
		return nil
	case "public":
		a.public = true
		return nil
	}
	return a.setRoles(answer)
}

// setTitle sets the name on the start page.
func (a *adding) setTitle(answer string) error {
	if answer != noTitle {
		a.app.Title = answer
	}
	return nil
}

// noTitle is the answer by which the start page does not list the application.
const noTitle = "none"

// plausible returns an error for mistakes in the answers so far. Others take the places of
// those that are to come.
func (a *adding) plausible(content []byte) error {
	so := *a
	so.app.URL = cmp.Or(so.app.URL, "http://127.0.0.1:1")
	if so.host = cmp.Or(so.host, so.app.Name+".invalid"); so.app.Name == "" {
		return errors.New("a name is needed")
	}
	_, err := so.added(content)
	return err
}
