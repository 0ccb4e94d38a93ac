"""`newkinds finetune`: what is said when it is done. The training itself is tested with the encoders."""

import pytest

from newkinds.commands.finetune import describe_losses


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([2.5, 3.0, 1.25], "The loss fell from 2.500 to 1.250."),
        ([1.25, 1.0, 2.5], "The loss rose from 1.250 to 2.500: try a smaller --learning-rate."),
        ([1.25, 1.2501], "The loss stayed at 1.250."),
        ([1.25], "The loss is 1.250."),
    ],
)
def test_the_loss_is_said_to_have_fallen_only_if_it_fell(losses: list[float], said: str) -> None:
    assert describe_losses(losses) == said
