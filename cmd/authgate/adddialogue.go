package main

import (
	"cmp"
	"errors"
	"os"
	"strings"
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
		{who, a.whoQuestion},
		{a.app.Title != "", func() question {
			return question{"Its name on the start page, or none", a.app.Name, a.setTitle}
		}},
	} {
		if one.said {
			continue
		}
		q := one.ask()
		q.set = checked(a, q.set, func() error { return a.plausible(content) })
		if err := q.ask(t); err != nil {
			return err
		}
	}
	return nil
}

// whoQuestion asks who may open the application. With a provider no answer is likely: at many of them,
// everybody can have an account.
func (a *adding) whoQuestion() question {
	who, fallback := allUsers, allUsers
	if len(a.cfg.Providers) > 0 {
		who, fallback = allUsers+" (those of the providers too)", ""
	}
	return question{
		"Who may open it: " + who + ", public (everybody, without sign-in), or roles, separated by commas",
		fallback, a.setWho,
	}
}

// textQuestion asks for a text.
func textQuestion(text string, answer *string) question {
	return question{text: text, set: setText(answer)}
}

// likelyHost returns a host beside that of public_url, or a path of it if there can be no other host.
func (a *adding) likelyHost() string {
	public := a.cfg.PublicURL
	own := strings.TrimSuffix(public.Host, ":"+public.Port())
	return cmp.Or(besideHost(public.Hostname(), a.app.Name), own+"/"+hostLabel(a.app.Name)+"/")
}

// allUsers is the answer by which all who sign in may open the application. A role is
// seldom called that.
const allUsers = "all users"

// setWho sets who may open the application.
func (a *adding) setWho(answer string) error {
	switch answer {
	case "":
		return errors.New("an answer is needed: at many providers, everybody can have an account")
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
