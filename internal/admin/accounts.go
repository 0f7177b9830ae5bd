package admin

import (
	"net/http"
	"net/url"
	"time"

	"seckill"
)

// accountView is an account as the API shows it.
type accountView struct {
	Name      string       `json:"name"`
	Role      seckill.Role `json:"role"`
	Disabled  bool         `json:"disabled"`
	CreatedAt time.Time    `json:"created_at"`
	ChangedAt time.Time    `json:"changed_at"`
}

func showAccount(a *seckill.Account) accountView {
	return accountView{a.Name, a.Role, a.Disabled, a.CreatedAt.UTC(), a.ChangedAt.UTC()}
}

type accountList struct {
	Accounts []accountView `json:"accounts"`
}

func (s *Server) listAccounts(r *http.Request) (answer, error) {
	list, err := s.o.Accounts.Accounts(r.Context())
	if err != nil {
		return answer{}, err
	}
	views := make([]accountView, len(list))
	for i := range list {
		views[i] = showAccount(&list[i])
	}
	return answer{status: http.StatusOK, body: accountList{views}}, nil
}

func (s *Server) addAccount(r *http.Request) (answer, error) {
	var b struct {
		Name     string  `json:"name"`
		Password string  `json:"password"`
		Role     string  `json:"role"`
		Reason   *string `json:"reason"`
	}
	err := body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	if err := merge(err, append(s.o.Accounts.Check(b.Name, b.Password, seckill.Role(b.Role)), wrong...)); err != nil {
		return answer{}, err
	}
	made, err := s.o.Accounts.Add(r.Context(), b.Name, b.Password, seckill.Role(b.Role), by)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, location: "/admin/v1/accounts/" + url.PathEscape(made.Name), body: showAccount(&made)}, nil
}

func (s *Server) changeAccount(r *http.Request) (answer, error) {
	var b struct {
		Password *string `json:"password"`
		Role     *string `json:"role"`
		Disabled *bool   `json:"disabled"`
		Reason   *string `json:"reason"`
	}
	err := body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	change := seckill.AccountChange{Password: b.Password, Disabled: b.Disabled}
	if b.Password != nil {
		wrong = append(wrong, s.o.Accounts.CheckPassword(*b.Password)...)
	}
	if b.Role != nil {
		role := seckill.Role(*b.Role)
		change.Role = &role
		wrong = append(wrong, s.o.Accounts.CheckRole(role)...)
	}
	if err == nil && change == (seckill.AccountChange{}) {
		wrong = append(wrong, seckill.FieldError{Field: "role", Rule: seckill.RuleFormat, Arg: "given, or else password or disabled"})
	}
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	changed, err := s.o.Accounts.Change(r.Context(), r.PathValue("name"), change, by)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showAccount(&changed)}, nil
}

func (s *Server) removeAccount(r *http.Request) (answer, error) {
	var c commandBody
	err := body(r, &c, true)
	by, wrong := actor(r, c.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	if err := s.o.Accounts.Remove(r.Context(), r.PathValue("name"), by); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}
