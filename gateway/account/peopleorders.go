package account

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"authgate/gateway/accounts"
	"authgate/gateway/auth"
	"authgate/gateway/endpoint"
	"authgate/gateway/web"
)

// peopleOrder is what is to be changed, and for whom.
type peopleOrder struct {
	username string
	roles    []string
}

// readPeopleOrder reads a JSON object, or a form.
func readPeopleOrder(ex *web.Exchange, c *peopleChange) (*peopleOrder, error) {
	read := orderOfObject
	if ex.MediaType() == web.TypeForm {
		read = orderOfForm
	}
	order, err := read(ex, c)
	if err != nil {
		return nil, err
	}
	order.username = auth.EnteredName(order.username)
	if err := accounts.CheckUsername(order.username, false); c.add && err != nil {
		return nil, endpoint.BadRequest("An account cannot have this name: "+err.Error()+".", errName)
	}
	return order, nil
}

func orderOfObject(ex *web.Exchange, c *peopleChange) (*peopleOrder, error) {
	o, err := endpoint.JSONBody(ex, jsonOrForm)
	if err != nil {
		return nil, err
	}
	order := &peopleOrder{}
	if order.username, err = o.Text("username"); err != nil {
		return nil, err
	}
	raw, given := o["roles"]
	if !c.roles || !given && c.add {
		return order, nil
	}
	roles, err := readRoles(raw)
	order.roles = eachOnce(roles)
	return order, err
}

// orderOfForm reads a form. The roles are between commas, in one field or several.
func orderOfForm(ex *web.Exchange, c *peopleChange) (*peopleOrder, error) {
	values, err := url.ParseQuery(string(ex.Body))
	names, roles := values["username"], strings.Join(values["roles"], ",")
	if err != nil || len(names) != 1 || !utf8.ValidString(names[0]+roles) {
		return nil, endpoint.BadRequest(`The form must have one field "username".`, nil)
	}
	order := &peopleOrder{username: names[0]}
	if !c.roles {
		return order, nil
	}
	if _, given := values["roles"]; !given && !c.add {
		return nil, endpoint.BadRequest(`The form must have the field "roles": roles with commas between them.`, nil)
	}
	order.roles = eachOnce(strings.Split(roles, ","))
	return order, nil
}

// eachOnce returns roles without outer space, each once, and without empty ones.
func eachOnce(roles []string) []string {
	once := []string{}
	for _, role := range roles {
		if role = strings.TrimSpace(role); role != "" && !slices.Contains(once, role) {
			once = append(once, role)
		}
	}
	return once
}
