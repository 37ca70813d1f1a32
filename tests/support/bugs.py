"""Bugs that tests plant in the sampler, to show that they would find them."""

import allocore.gibbs.tied as tied_module


def forget_a_role(monkeypatch):
    """The exposure of tied rows lacks their second role."""
    right = tied_module.roles_of

    def forgetful(*given):
        roles = right(*given)
        return roles._replace(scale_2V=roles.scale_2V * [[1.0], [0.0]])

    monkeypatch.setattr(tied_module, "roles_of", forgetful)
